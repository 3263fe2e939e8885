"""One cluster for all tests of the Spark engine: a master, two workers of one core each, on loopback."""

from collections.abc import Iterator

import pytest

from slc_ops.engines.spark.engine import SparkEngine
from slc_ops.rows.engine import engine_of
from tests.engines.spark.cluster import SMALL, Cluster, why_not


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def engine(cluster: Cluster) -> Iterator[SparkEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLC_OPS_SPARK_MASTER", cluster.master)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_SUBMIT_ARGS", SMALL)
        engine = engine_of("spark")
        assert isinstance(engine, SparkEngine)
        yield engine
        engine.close()
