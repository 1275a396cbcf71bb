"""Which regular expressions are refused when they are loaded. Pure; that those accepted do end is in the spec tests."""

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.pattern_meaning import other_meaning
from lakehouse_assets.checks.patterns import refusal
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.strict_model import RECORDED

PLAIN = [
    "^[A-Z]{3}$",
    "^a+$",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    r"\d+-\d+-\d+",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^N\d{1,5}[A-Z]{0,2}$",
    r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$",
    "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
    r"^https?://[^/\s]+(/\S*)?$",
    r"^\w+([ -]\w+)?$",
    "x*y",
    "foo.*bar",
    "^.*x.*y",
    "^(EWR|JFK|LGA)$",
    "^(abc)*$",
    "^(?:ab)+?$",
    "^((ab)c)*$",
    "^(x+x+)y$",
    "(?i)^x+y$",
    r"^(?=.*\d).{8,20}$",
    r"\(a|b\)*",
    "[|)*]",
    "[]|]*",
    "[^]|]*x",
    "é+[a-z]+",
    "",
    "^$",
    "^[{,3}]{2,}}$",
    r"^\{[a-z]{0,3}\}$",
]
CATASTROPHIC = [
    "^(a|b)*$",
    "^((a|b))*$",
    "^(?:a|(b))*$",
    "([ab]|[cd])+x",
    "((a)|b){3,}",
    "(a|ab){12}",
    "^(.*a){12}$",
    "(a+)+",
    "(a*)*b",
    "(?:a+)*?b",
    "((a{2,3})c)+",
    "(a{1,9}){9}",
    "(a?){30}a{30}",
    "a?" * 30 + "a" * 30,
    "a{0,9}" * 12 + "b",
    ".*x.*y",
    ".*.*.*.*",
    "^.*x.*x.*y",
    "^(x+x+x+)y$",
    "^é+[é-ü]+é+x",
    "^[\u0430-\u044f]+[\u043f-\u0450]+\u0440+x",  # Cyrillic: no code of it is within Latin-1
    "(?i)^a+A+a+x",
    r"(a)(\1)*",
]
NOT_JAVA = ["(", "[", "*a", "a{2,1}", "(?P<n>a)", "(?P=n)", "(?(1)a|b)", "(?#c)a", "(?a)x", "[a-z&&[^b]]", r"\p{L}"]
# Of one meaning, however near to another.
ALIKE = [
    "(?iu)^straße$", "(?i)(?u)é", "(?u)(?i:é)", "(?i:(?u:é)x)", "(?u:é)(?i:x)", "(?i)[éÉ]|ä|Ä", "(?i)日本", "(?i:x)é",
    "(?i)[\u0430-\u044f\u0410-\u042f]",  # Cyrillic, in both cases
    "é", r"\\v", r"\01\x0B", r"\012", r"\0400", r"[\012]", r"\\101", r"\[\\b]", r"\(?is é", r"\b[a]\b", r"[]a]\b",
    "(?<=ab|cd)e", "(?<!a|bc)d", "(?<=a{1,255})b", "(?<![0-9]{1,200}x)b", "(?<!a{300})b", r"(a)(?=\1)b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns_are_accepted(pattern):
    assert refusal(pattern) is None


@pytest.mark.parametrize("pattern", CATASTROPHIC, ids=lambda p: p[:30])
def test_patterns_that_could_run_for_ever_are_refused(pattern):
    assert "run for ever" in (refusal(pattern) or "")


@pytest.mark.parametrize("pattern", [*NOT_JAVA, "(" * 5000 + ")" * 5000], ids=lambda p: p[:30])
def test_patterns_that_do_not_compile_are_refused(pattern):
    assert "does not compile" in (refusal(pattern) or "")


def test_an_end_that_java_reads_otherwise_is_refused():
    assert "also stands before a last line break" in (refusal(r"^[A-Z]{3}\Z") or "")
    assert refusal(r"^[A-Z]{3}\\Z$") is None, "a backslash, and a Z"


@pytest.mark.parametrize("pattern", ["^a{,3}$", "^(ab){,2}$", "^{[a-z]+}$", "x{a}", "a{", "a{2,x}", "a{3000000000}", "a{,}"])
def test_a_repeat_that_java_reads_as_text_is_refused_with_the_way_out(pattern):
    assert r"and \{ is the character" in (refusal(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "way_out"),
    [
        ("(?i)^straße$", "write (?iu)"),
        ("^a(?si:é)", "write (?iu)"),
        (r"(?i)^\u00e9$", "write (?iu)"),
        (r"(?i)stra\xdfe", "write (?iu)"),
        ("(?i:é)(?u:x)", "write (?iu)"),
        ("(?i)(?:a|(b[^é]+))", "write (?iu)"),
        ("(?i)[\u0430-\u044f]", "write (?iu)"),
        (r"[\b]", r"write \x08"),
        (r"[a\b]", r"write \x08"),
        (r"\0", r"write \x00"),
        (r"\08", r"write \x00"),
        (r"[\0]", r"write \x00"),
        (r"\U0001F600", "write the character itself"),
        (r"[\U0001F600]", "write the character itself"),
        (r"\v", r"write \x0B"),
        (r"[\v]", r"write \x0B"),
        (r"\101", r"write \x41"),
        (r"\0101", r"write \x41"),
        (r"[\0101]", r"write \x41"),
        (r"[\12]", r"write \x0A"),
        (r"[\1]", r"write \x01"),
        (r"(?<=a+)b", "such as {1,9} for +"),
        (r"x|(?:(?<!a{3,300})b)", "such as {1,9} for +"),
        ("(?<=a{0,120}a{0,120}b)c", "Java tries at each character: bound its repeats"),
        ("(?:x|(?<!a{1,99}a{1,99}))c", "Java tries at each character: bound its repeats"),
        (r"(a)(?<=\1)b", "write out what it may be"),
        (r"(a)(?<!x(?:b|\1))b", "write out what it may be"),
    ],
)
def test_a_pattern_that_java_reads_otherwise_is_refused_unless_a_decision_has_it(pattern, way_out):
    check = {"check": "matches", "column": "v", "pattern": pattern}
    kinds = TypeAdapter(AnyCheck)
    with pytest.raises(ValidationError) as error:
        kinds.validate_python(check)
    assert way_out in str(error.value).replace("\\\\", "\\")
    assert refusal(pattern) is None
    assert kinds.validate_python(check, context={RECORDED: True}).pattern == pattern


@pytest.mark.parametrize("pattern", [*PLAIN, *ALIKE])
def test_patterns_of_one_meaning(pattern):
    assert (refusal(pattern), other_meaning(pattern)) == (None, None)
