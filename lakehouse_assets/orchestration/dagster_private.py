"""Every name of Dagster's private modules that this project uses, and what for. Check each of them when Dagster is upgraded.

Belongs here: these imports, and no other file has one. Does not: what is done with them (dagster_internals, dagster_runs,
dagster_storage, checks_in_one_pass, partition_results).
"""

# ruff: noqa: F401 (other files import these names from here)

from dagster._core.asset_graph_view.serializable_entity_subset import (
    SerializableEntitySubset,  # the partitions of a check's state
)
from dagster._core.code_pointer import (
    CodePointer,  # where definitions are
    ModuleCodePointer,  # whether loading makes definitions anew
)
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,  # a check without a result, which shows as skipped
    AssetCheckEvaluationTargetMaterializationData,  # which materialization a result is of
)
from dagster._core.definitions.job_base import InMemoryJob  # a job that `lakehouse run` executes in its own process
from dagster._core.definitions.partitions.subset import (
    TimeWindowPartitionsSubset,  # such partitions, if they are windows of time
)
from dagster._core.definitions.partitions.utils.time_window import PersistedTimeWindow  # ranges of windows of time
from dagster._core.definitions.reconstruct import (
    ReconstructableJob,  # keeps a job's definition
    ReconstructableRepository,  # keeps a code location's definitions
)
from dagster._core.definitions.sensor_definition import SensorExecutionData  # a tick, whose requests are replaced
from dagster._core.definitions.timestamp import TimestampWithTimezone  # the bounds of a range
from dagster._core.errors import (
    DagsterAssetCheckFailedError,  # what a failed blocking check raises in this process
    DagsterUserCodeUnreachableError,  # of a code server that does not answer
)
from dagster._core.events import DagsterEvent  # the event of a result
from dagster._core.events.log import EventLogEntry  # an event as it is stored
from dagster._core.execution.backfill import (
    BulkActionsFilter,  # chooses backfills by status
    BulkActionStatus,  # of backfills that have not requested all their runs
    PartitionBackfill,  # such a backfill's type
)
from dagster._core.execution.execute_in_process import core_execute_in_process  # with checks, as a run of these assets
from dagster._core.instance.ref import InstanceRef  # the identity of an instance: its storage
from dagster._core.instance.utils import RUNLESS_RUN_ID  # the run of what is reported without one
from dagster._core.launcher.base import (
    CheckRunHealthResult,  # what a launcher answers about a run
    LaunchRunContext,  # what a launcher receives
    WorkerStatus,  # the state of a run's process
)
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin  # a code location on a code server
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionResolvedStatus  # keys of a check's state
from dagster._core.storage.asset_check_state import AssetCheckState  # a check's state, as the storage returns it
from dagster._core.storage.dagster_run import (
    FINISHED_STATUSES,  # of runs that are over
    NOT_FINISHED_STATUSES,  # of runs that may still change something
)
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,  # the table of planned checks and results
    SqlEventLogStorageTable,  # the table of events
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage  # a storage that has these tables
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,  # the database of all runs' events
    SqliteEventLogStorage,  # the database is opened once
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage  # the database is opened once
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage  # the database is opened once
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS  # Dagster's own wait for a lock
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage  # has the three storages
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,  # the last window of a run of a range
    ASSET_PARTITION_RANGE_START_TAG,  # the first one
    GRPC_INFO_TAG,  # where a run names its code server
    PARENT_RUN_ID_TAG,  # which run a run retries
    PARTITION_NAME_TAG,  # the window of a run of one
    ROOT_RUN_ID_TAG,  # which run was the first of its retries
)
from dagster._grpc.client import DagsterGrpcClient  # asks a code server for its runs
from dagster._grpc.impl import core_execute_run  # what Dagster's own run worker calls
from dagster._grpc.types import GetCurrentRunsResult  # a code server's answer
from dagster._record import copy  # a tick with other requests
from dagster._serdes import serialize_value  # how an event is stored
from dagster._utils.hosted_user_process import recon_job_from_origin  # loads the job of a launched run
from dagster._utils.interrupts import capture_interrupts  # a signal ends a run in order
from dagster._utils.test.definitions import LazyDefinitions  # definitions of `@dg.definitions`
