"""The version of the method by which a batch is compared with the windows before it.

Belongs here: the number, and what each version changed. A verdict records it, so that a replay judges as it was judged then.
Does not: the method.
"""

# 1: a batch is ranked among all windows before it, and a sum over windows takes windows of all sizes for equal.
# 2: it is ranked among those that know most of its statistics, sums allow for sizes, and a quarantined window is named by its
#    volume or missing values only where these alone would be quarantined.
# 3: the first two weeks of hours are measured again once they are known, since weekdays recur only then.
METHOD = 3
FIRST_METHOD = 1  # of verdicts that record none
EQUAL_TERMS = 2  # since this one
AFTER_TWO_WEEKS = 3  # since this one
