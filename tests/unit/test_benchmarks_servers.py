"""The protocol between the side that measures and a runtime's server process, with a runtime made here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import catalogue, serving
from benchmarks.peers.catalogue import Peer
from benchmarks.peers.client import RefusedError, Server
from farm.cases import TensorSpec
from tests.support import graphs

BODY = """
import sys
sys.path.insert(0, {place!r})
import os, numpy, serving

def load(wanted):
    {first}
    (given,) = wanted.inputs.values()
    answer = numpy.zeros_like(given)
    def run():
        answer[:] = 2 * given
        {each}
    print("what a runtime prints")
    return serving.Loaded("9.9", run, lambda: [answer])

serving.main(load)
"""
INPUTS = {"x": np.array([[1.0, -2.0]], np.float32)}
OUTPUTS = [TensorSpec("y", (1, 2))]
CORE = (min(os.sched_getaffinity(0)),)


@dataclass(frozen=True, slots=True)
class Scripted(Peer):
    """A peer whose server is a file of the test's."""

    file: Path = Path()

    @property
    def python(self) -> Path:
        return Path(sys.executable)

    @property
    def script(self) -> Path:
        return self.file


@pytest.fixture
def serve(tmp_path: Path):
    def start(first: str = "pass", each: str = "pass") -> Server:
        place = str(Path(serving.__file__).parent)
        (tmp_path / "serve.py").write_text(BODY.format(place=place, first=first, each=each))
        return Server(Scripted("made", "", file=tmp_path / "serve.py"), CORE, tmp_path / "log")

    return start


def load(server: Server, folder: Path):
    return server.load(Path("model.onnx"), INPUTS, OUTPUTS, threads=1, folder=folder)


def test_a_model_is_loaded_run_and_answers_in_bytes(serve, tmp_path: Path):
    with serve() as server:
        assert load(server, tmp_path)["version"] == "9.9"
        told = server.turn(1, 5)
        assert (len(told["cpu"]), len(told["wall"])) == (5, 5)
        assert told["cpu_ns"] <= 1.2 * told["wall_ns"]
        assert server.outputs(OUTPUTS)["y"].tolist() == [[2.0, -4.0]]
        assert server.ask("threads", cores=list(CORE)) == {"strays": 0}


def test_a_runtime_that_raises_refuses_with_its_words(serve, tmp_path: Path):
    with serve(first="raise TypeError('a line\\nerror: no operator Foo')") as server:
        with pytest.raises(RefusedError, match=r"^TypeError: error: no operator Foo$"):
            load(server, tmp_path)
        with pytest.raises(RefusedError, match="nothing is loaded"):
            server.turn(1, 1)


def test_a_runtime_that_dies_refuses_with_its_status(serve, tmp_path: Path):
    with serve(each="os.kill(os.getpid(), 11)") as server, pytest.raises(RefusedError, match="status -11"):
        load(server, tmp_path)


def test_another_shape_than_the_models_is_refused(serve, tmp_path: Path):
    with serve() as server, pytest.raises(RefusedError, match=r"it answers shapes \[\(1, 2\)\], not \[\(2,\)\]"):
        server.load(Path("m"), INPUTS, [TensorSpec("y", (2,))], threads=1, folder=tmp_path)


def test_a_thread_that_leaves_its_core_is_seen(serve, tmp_path: Path):
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        pytest.skip("there is one core")
    with serve(first=f"os.sched_setaffinity(0, {every})") as server:
        load(server, tmp_path)

        assert server.ask("threads", cores=list(CORE)) == {"strays": 1}


def test_a_peer_that_is_not_installed_is_refused_with_what_installs_it(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(catalogue, "ENVIRONMENTS", tmp_path)

    with pytest.raises(RefusedError, match="run `make peers`"):
        Server(catalogue.PEERS[0], CORE, tmp_path / "log")


def test_the_server_of_onnxruntime_answers_and_tells_its_nodes(tmp_path: Path):
    # given max(x, 0) over [1, 3, 2, 2], served by the onnxruntime of the farm's own environment
    model = graphs.relu(tmp_path / "relu.onnx", side=2)
    given = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2)
    outputs = [TensorSpec("y", given.shape)]
    peer = Scripted("onnxruntime", "", file=catalogue.PEERS[0].script)

    with Server(peer, CORE, tmp_path / "log") as server:
        server.load(model, {"x": given}, outputs, threads=1, folder=tmp_path)
        server.turn(1, 1)

        assert np.array_equal(server.outputs(outputs)["y"], np.maximum(given, 0))
        (node,) = server.ask("nodes")["nodes"]
        assert (node["op"], node["made"]) == ("Relu", [[1, 3, 2, 2]])


@pytest.mark.parametrize("peer", [catalogue.OURS, *catalogue.PEERS], ids=lambda peer: peer.name)
def test_every_peer_has_a_server_and_a_lock(peer: Peer):
    assert peer.script.is_file()
    lock = catalogue.ROOT / "requirements" / "peers" / f"{peer.name}.txt"
    assert peer is catalogue.OURS or lock.is_file()
