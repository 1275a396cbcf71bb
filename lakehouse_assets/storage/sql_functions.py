"""SQL functions of extensions in a Spark session.

Belongs here: registering them. Does not: which there are, and their names (checks/sql/functions).
"""

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from lakehouse_assets.checks.sql.functions import own_functions
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import project_modules


def register_functions(spark: SparkSession) -> None:
    """Register every function of extensions in this session. Raises ConfigError for one that Spark cannot register."""
    if not own_functions():
        return
    for module in project_modules():
        cloudpickle.register_pickle_by_value(module)
    for name, function in own_functions().items():
        try:
            if function.python is not None:
                spark.udf.register(name, function.python, function.returns)
            else:
                spark.udf.registerJavaFunction(name, str(function.java), function.returns)
        except Exception as error:
            text = str(error).splitlines()[0][:300]
            raise ConfigError(f"the SQL function {name!r} of an extension cannot be registered in Spark: {text}") from error
