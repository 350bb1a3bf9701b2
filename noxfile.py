"""Every check of the project; `nox -s tests` runs all that CI runs, `nox -s demo` is the main job for a newcomer."""

from __future__ import annotations

import ast
import json
import os
import random as _random
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
CACHE = ROOT / ".nox"
SUPPORT = ROOT / "tests" / "support"
IS_WINDOWS = os.name == "nt"

#: What imports and runs FlashInfer's Python on a CPU: never cutlass-dsl (which nvidia-cudnn-frontend would bring) or a CUDA torch.
BASE = (
    "triton==3.9.0",
    "numpy>=2.3,<3",
    "hypothesis>=6.100",
    "pytest>=8",
    "pytest-timeout>=2",
    "packaging",
    "importlib-metadata",
    "apache-tvm-ffi>=0.1.11,<0.2",
    "cuda-tile",
    "cuda-bindings",
    "cuda-pathfinder",
    "nvidia-cuda-runtime-cu12",
    "nvidia-ml-py",
    "einops",
    "tabulate",
    "click",
    "requests",
    "tqdm",
    "ninja",
)
TORCH = "torch==2.13.0"
#: Without dependencies: it would bring another torch.
ORACLES = ("torchao==0.18.0",)
TOOLS = ("remotezip>=0.12", "pypi-simple>=1.5")
LINT = ("ruff==0.17.6", "mypy==2.4.1", "packaging", "importlib-metadata", "pytest")


def table(name: str):
    """Read a constant of fi_compat/_table.py; the table is the one place that lists releases and trees."""
    sys.path.insert(0, str(ROOT))
    try:
        from fi_compat import _table
    finally:
        sys.path.pop(0)
    return getattr(_table, name)


def timed(function):
    """Print how long a session took: CI's budget is kept by these lines."""
    import functools

    @functools.wraps(function)
    def wrapper(session: nox.Session) -> None:
        start = time.monotonic()
        try:
            function(session)
        finally:
            session.log(f"SECONDS {function.__name__}: {time.monotonic() - start:.0f}")

    return wrapper


def uv() -> str:
    """Return a uv executable; the first session installs one when there is none."""
    found = shutil.which("uv")
    if found:
        return found
    target = CACHE / "uv"
    binary = target / "bin" / "uv"
    if not binary.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "uv"], check=True)
    return str(binary)


def uv_environment() -> dict[str, str]:
    """Return the environment for uv: it looks where pip looks for local wheels."""
    environment = dict(os.environ)
    if os.environ.get("PIP_FIND_LINKS") and "UV_FIND_LINKS" not in environment:
        environment["UV_FIND_LINKS"] = os.environ["PIP_FIND_LINKS"].replace(" ", ",")
    return environment


def uv_run(*arguments: str) -> None:
    """Run uv, three times at most: an index that does not answer once is no failure of ours."""
    for attempt in range(3):
        result = subprocess.run([uv(), *arguments], env=uv_environment(), check=False)
        if result.returncode == 0:
            return
        time.sleep(5 * (attempt + 1))
    raise SystemExit(f"uv {' '.join(arguments)} failed three times")


def environment(name: str, *packages: str, no_deps: tuple[str, ...] = (), torch: bool = False) -> Path:
    """Build an environment once, and return its Python."""
    folder = CACHE / name
    python = folder / "bin" / "python"
    stamp = folder / ".complete"
    wanted = "\n".join((TORCH if torch else "", *packages, *no_deps))
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    uv_run("venv", "--quiet", "--python", sys.executable, str(folder))
    if torch:
        # A local wheel directory, where there is one, has a CPU build; elsewhere ask for one.
        cpu = () if os.environ.get("PIP_FIND_LINKS") else ("--torch-backend", "cpu")
        uv_run("pip", "install", "--quiet", "--python", str(python), *cpu, TORCH)
    uv_run("pip", "install", "--quiet", "--python", str(python), *packages)
    if no_deps:
        uv_run("pip", "install", "--quiet", "--python", str(python), "--no-deps", *no_deps)
    stamp.write_text(wanted)
    print(f"SECONDS environment {name}: {time.monotonic() - start:.0f}")
    return python


def base() -> Path:
    """Return the Python of the one base environment."""
    return environment("base", *BASE, no_deps=ORACLES, torch=True)


def tools() -> Path:
    """Return the Python that reads published wheels."""
    return environment("tools", *TOOLS)


def overlay(release: str) -> Path:
    """Install one published FlashInfer wheel, without dependencies, into a folder of its own."""
    folder = CACHE / "overlays" / f"flashinfer-{release}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv_run("pip", "install", "--quiet", "--python", str(base()), "--no-deps", "--target", str(folder), f"flashinfer-python=={release}")
        (folder / ".complete").touch()
    return folder


def tree_folder(distribution: str, version: str) -> Path:
    """Read a published triton_kernels tree out of its wheel."""
    result = subprocess.run(
        [str(tools()), str(SUPPORT / "fetch_tree.py"), distribution, version, str(CACHE / "trees")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Path(result.stdout.strip().splitlines()[-1])


def pytest_run(python: Path, arguments: list[str], extra: dict[str, str], name: str) -> tuple[int, dict[str, int], str]:
    """Run pytest in a fresh process and return its exit status, counts and output."""
    report = CACHE / "reports" / f"{name}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **extra}
    command = [str(python), "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    if report.exists():
        suite = ET.parse(report).getroot().find("testsuite")
        if suite is not None:
            counts["skipped"] = int(suite.get("skipped", 0))
            counts["failed"] = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            counts["passed"] = int(suite.get("tests", 0)) - counts["failed"] - counts["skipped"]
    return result.returncode, counts, result.stdout


def show(session: nox.Session, rows: list[tuple[str, ...]]) -> None:
    """Print an aligned table, the first row being the heading."""
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    for row in rows:
        session.log("  ".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Everything that CI runs; each part is a session of its own."""
    for name in ("lint", "unit", "wheel", "reference", "contract", "generations", "distributed", "random"):
        session.notify(name)


@nox.session(venv_backend="none")
@timed
def lint(session: nox.Session) -> None:
    """ruff with every rule, mypy strict, and the typing tests."""
    python = environment("lint", *LINT)
    session.run(str(python), "-m", "ruff", "check", ".", external=True)
    session.run(str(python), "-m", "ruff", "format", "--check", ".", external=True)
    session.run(str(python), "-m", "mypy", external=True)
    session.run(str(python), "-m", "pytest", "-q", "tests/typing", external=True)


@nox.session(venv_backend="none")
@timed
def unit(session: nox.Session) -> None:
    """The unit and hygiene suites: no torch, no network."""
    python = environment("unit", "pytest>=8", "packaging", "importlib-metadata")
    session.run(str(python), "-m", "pytest", "-p", "no:cacheprovider", "tests/unit", *session.posargs, external=True)


@nox.session(venv_backend="none")
@timed
def wheel(session: nox.Session) -> None:
    """Build the wheel, list it, install it into an empty environment, and run the unit suite from another folder."""
    builder = environment("build", "build", "hatchling>=1.26")
    out = CACHE / "dist"
    shutil.rmtree(out, ignore_errors=True)
    session.run(str(builder), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(ROOT), external=True, silent=True)
    built = next(out.glob("*.whl"))
    import zipfile

    names = zipfile.ZipFile(built).namelist()
    session.log(f"{built.name}: {built.stat().st_size} bytes, {len(names)} files")
    allowed = {"fi_compat", next(n.partition("/")[0] for n in names if ".dist-info/" in n)}
    assert {n.partition("/")[0] for n in names} == allowed, names
    assert "fi_compat/py.typed" in names
    python = environment("wheel", "pytest>=8")
    uv_run("pip", "install", "--quiet", "--python", str(python), "--reinstall-package", "fi-compat", str(built))
    elsewhere = CACHE / "elsewhere"
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.copytree(ROOT / "tests", elsewhere / "tests")
    shutil.copy(ROOT / "pyproject.toml", elsewhere)
    with session.chdir(elsewhere):
        session.run(
            str(python),
            "-c",
            f"import fi_compat; assert {str(CACHE / 'wheel')!r} in fi_compat.__file__, fi_compat.__file__; print(fi_compat.__version__)",
            external=True,
        )
        session.run(str(python.parent / "fi-compat"), "--version", external=True)
        session.run(str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit", external=True)


@nox.session(venv_backend="none")
@timed
def reference(session: nox.Session) -> None:
    """The plain-torch reference against hand-computed vectors and torchao."""
    code, counts, output = pytest_run(base(), ["tests/property/reference"], {}, "reference")
    session.log(output)
    assert code == 0 and counts["passed"] > 0 and counts["skipped"] == 0, counts


def run_releases(session: nox.Session, releases: list[str], suite: str = "contract", workers: int = 2) -> None:
    """Run a suite on releases, and print the matrix of release, adapter, how, and tests passed."""
    assert releases, "no releases to test: an empty matrix is a failure"
    python = base()

    def one(release: str) -> tuple[str, int, dict[str, int], str]:
        folder = overlay(release)
        try:
            env = {"PYTHONPATH": str(folder), "FI_COMPAT_OVERLAY": str(folder), "FI_COMPAT_EXPECT_FLASHINFER": release}
            return (release, *pytest_run(python, [f"tests/{suite}"], env, f"{suite}-{release}"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(one, releases))
    sys.path.insert(0, str(ROOT))
    from fi_compat import adapter_for

    rows = [("release", "adapter", "how", "passed", "failed", "skipped")]
    for release, code, counts, output in results:
        try:
            adapter = adapter_for("flashinfer", release)
        except ImportError as error:
            adapter = type(error).__name__
        rows.append((release, adapter, "version", *(str(counts[k]) for k in ("passed", "failed", "skipped"))))
        if code != 0:
            print(output)
        for line in output.splitlines():
            if line.startswith(("ROW ", "NAIVE ")):
                session.log(line)
    show(session, rows)
    bad = [r for r, code, counts, _ in results if code != 0 or counts["passed"] == 0 or counts["skipped"]]
    assert not bad, f"failed on {bad}"
    session.log(f"FlashInfer releases tested: {len(results)} of {len(releases)} asked for; skipped tests: 0")


@nox.session(venv_backend="none")
@timed
def contract(session: nox.Session) -> None:
    """The contract suite on every published FlashInfer release of the table, or on those named."""
    releases = session.posargs or list(table("FLASHINFER_RELEASES"))
    run_releases(session, releases)
    if not session.posargs:
        assert len(releases) == 28, "the table lists 28 published releases; a new one is a decision"


def run_trees(session: nox.Session, names: list[str], extra: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run the property and corpus suites on trees, R1 first, since the others read what it writes."""
    known = {t.name: t for t in table("TREES")}
    assert names, "no trees to test: an empty list is a failure"
    python = base()
    corpus = CACHE / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)

    def one(name: str) -> tuple[str, int, dict[str, int], str]:
        where = folder if folder and name in names else tree_folder(known[name].distribution, known[name].version)
        env = {
            "PYTHONPATH": str(where),
            "FI_COMPAT_OVERLAY": str(where),
            "FI_COMPAT_EXPECT_TREE": name,
            "FI_COMPAT_CORPUS": str(corpus),
            "TRITON_INTERPRET": "1",
            **(extra or {}),
        }
        return (name, *pytest_run(python, ["tests/property/generations"], env, f"generations-{name}"))

    tools()
    results = [one("R1")] if "R1" in names or not (corpus / "corpus.pt").exists() else []
    with ThreadPoolExecutor(2) as pool:
        results += list(pool.map(one, [n for n in names if n != "R1"]))
    rows = [("tree", "published in", "variant", "adapter", "examples", "passed", "failed", "skipped")]
    for name, code, counts, output in results:
        tree = known[name]
        examples = next((line.partition("examples: ")[2] for line in output.splitlines() if "examples: {" in line), "?")
        if examples != "?":
            examples = " + ".join(str(v) for v in ast.literal_eval(examples).values())
        adapter = next(r.adapter for r in table("TRITON_KERNELS_ROWS") if r.variant == tree.variant)
        rows.append(
            (
                name,
                f"{tree.distribution} {tree.version}",
                tree.variant,
                adapter,
                examples,
                *(str(counts[k]) for k in ("passed", "failed", "skipped")),
            )
        )
        if code != 0:
            print(output)
    show(session, rows)
    bad = [n for n, code, counts, _ in results if code != 0 or counts["passed"] == 0 or counts["skipped"]]
    assert not bad, f"failed on {bad}"
    session.log(f"triton_kernels trees tested: {len(results)}; skipped tests: 0")


@nox.session(venv_backend="none")
@timed
def distributed(session: nox.Session) -> None:
    """The allreduce workspace over real process groups, four ranks, on every published FlashInfer release."""
    run_releases(session, session.posargs or list(table("FLASHINFER_RELEASES")), "distributed")


@nox.session(venv_backend="none")
@timed
def generations(session: nox.Session) -> None:
    """The property and corpus suites on every published tree of the table, or on those named."""
    names = session.posargs or [t.name for t in table("TREES")]
    run_trees(session, names)
    if not session.posargs:
        assert len(names) == 6, "the table lists six trees; a new one is a decision"


@nox.session(venv_backend="none")
@timed
def random(session: nox.Session) -> None:
    """One random release and tree with a random hypothesis seed; all printed, FI_COMPAT_RANDOM repeats one."""
    chosen = int(os.environ.get("FI_COMPAT_RANDOM", _random.SystemRandom().randrange(2**31)))
    dice = _random.Random(chosen)
    release = dice.choice(table("FLASHINFER_RELEASES"))
    tree = dice.choice([t.name for t in table("TREES")])
    session.log(f"FI_COMPAT_RANDOM={chosen}: FlashInfer {release}, tree {tree}")
    run_releases(session, [release])
    run_trees(session, [tree], {"FI_COMPAT_SEED": str(chosen), "FI_COMPAT_EXAMPLES": "10"})


@nox.session(venv_backend="none")
@timed
def demo(session: nox.Session) -> None:
    """The main job on real packages, on a CPU: the same calls on two FlashInfer releases and three trees."""
    session.log("building one environment (about 1 minute on a fast network) ...")
    python = base()
    session.log("reading three triton_kernels trees out of published wheels ...")
    known = {t.name: t for t in table("TREES")}
    trees = {name: tree_folder(known[name].distribution, known[name].version) for name in ("R1", "R2", "R4")}
    releases = {}
    for release in ("0.6.8", "0.7.1"):
        session.log(f"installing the published flashinfer-python {release} ...")
        releases[release] = overlay(release)
    command = [str(python), "-m", "fi_compat", "demo"]
    for name, folder in trees.items():
        command += ["--tree", f"{name}={folder}"]
    for release, folder in releases.items():
        command += ["--flashinfer", f"{release}={folder}"]
    session.run(*command, external=True, env={"PYTHONPATH": str(ROOT)})
    for folder in releases.values():
        shutil.rmtree(folder, ignore_errors=True)


@nox.session(venv_backend="none")
@timed
def newest(session: nox.Session) -> None:
    """Releases and trees on the index that the table does not know: both suites, and a classified signature diff."""
    known = list(table("FLASHINFER_RELEASES"))
    trees = table("TREES")
    found = subprocess.run(
        [str(tools()), str(SUPPORT / "newest.py"), known[-1], *(f"{d}={max_known}" for d, max_known in newest_known(trees).items())],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    lines = [line.split("\t") for line in found.splitlines() if "\t" in line]
    releases = [v for kind, v, *_ in lines if kind == "flashinfer"]
    wheels = [(d, v) for kind, d, v in (line for line in lines if len(line) == 3) if kind == "kernels"]
    session.log(f"FlashInfer releases that the table does not know: {', '.join(releases) or 'none'}")
    session.log(f"kernel wheels that the table does not know: {', '.join(f'{d} {v}' for d, v in wheels) or 'none'}")
    if session.posargs:
        releases = list(session.posargs)
    python = base()
    for release in releases:
        last = known[-1] if release not in known else known[known.index(release) - 1]
        old, new = overlay(last), overlay(release)
        session.run(str(python), str(SUPPORT / "signature_diff.py"), str(old), str(new), external=True, env={"PYTHONPATH": str(ROOT)})
        session.run(
            str(python),
            "-m",
            "fi_compat",
            "explain",
            "flashinfer",
            external=True,
            env={"PYTHONPATH": os.pathsep.join((str(new), str(ROOT)))},
        )
        shutil.rmtree(old, ignore_errors=True)
    if releases:
        run_releases(session, releases)
    for distribution, version in wheels:
        folder = tree_folder(distribution, version)
        session.run(
            str(python),
            "-m",
            "fi_compat",
            "explain",
            "triton_kernels",
            external=True,
            env={"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))},
        )
        selected = subprocess.run(
            [str(python), "-c", "import fi_compat; print(fi_compat.active('triton_kernels').variant)"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()
        session.log(f"{distribution} {version} is a tree of variant {selected}, by structure: running the suites")
        name = next(t.name for t in trees if t.variant == selected)
        run_trees(session, [name], {"FI_COMPAT_TREE_VERSION": version, "FI_COMPAT_TREE_DISTRIBUTION": distribution}, folder=folder)


def newest_known(trees) -> dict[str, str]:
    """Return the newest version of each kernel distribution that the table names or knows to carry a known tree."""
    return {**{t.distribution: t.version for t in trees}, **table("NEWEST_KERNEL_WHEELS")}


@nox.session(venv_backend="none")
@timed
def contracts(session: nox.Session) -> None:
    """Read the names and signatures of every release and tree again, and what is generated from them; minutes of downloads."""
    folder = CACHE / "contracts"
    releases = ["0.6.7.post3", *table("FLASHINFER_RELEASES")]
    for release in releases:
        target = folder / release
        if not target.exists():
            source = overlay(release)
            shutil.copytree(
                source / "flashinfer", target / "flashinfer", ignore=shutil.ignore_patterns("data", "*.json", "*.jinja", "*.so")
            )
            shutil.rmtree(source)
    out = ROOT / "fi_compat" / "contracts"
    maker = [str(tools()), str(SUPPORT / "make_contracts.py")]
    session.run(*maker, str(out / "flashinfer.json.gz"), "flashinfer", *(f"{r}={folder / r}" for r in releases), external=True)
    trees = [f"{t.name}={tree_folder(t.distribution, t.version)}" for t in table("TREES")]
    session.run(*maker, str(out / "triton_kernels.json.gz"), "triton_kernels", *trees, external=True)
    session.run(str(tools()), str(SUPPORT / "make_functions.py"), str(ROOT), external=True)


#: Engines whose published wheels are audited, and the FlashInfer that each pins.
ENGINES = (
    ("sglang", "0.5.15", "0.6.12"),
    ("sglang", "0.5.23", "0.7.2"),
    ("vllm", "0.33.0", "0.7.2.post1"),
)


@nox.session(venv_backend="none")
@timed
def engines(session: nox.Session) -> None:
    """Audit published engines: their Python files are read out of the wheels, and nothing of them is kept."""
    python = environment("unit", "pytest>=8", "packaging", "importlib-metadata")
    rows = [("engine", "files", "seconds", "missing and unbindable, by release")]
    wanted = [(*a.split("=="), "") for a in session.posargs] or list(ENGINES)
    for name, version, pin in wanted:
        folder = CACHE / "engines" / f"{name}-{version}"
        session.run(str(tools()), str(SUPPORT / "fetch_engine.py"), name, version, str(folder), external=True)
        start = time.monotonic()
        command = [str(python), "-m", "fi_compat", "audit", str(folder / name), "--json", "--fail-on", "never"]
        report = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)
        seconds = time.monotonic() - start
        broken = [f for f in report["findings"] if f["severity"] == "break"]
        counts = {r: sum(r in f["releases"] for f in broken) for r in report["releases"]["flashinfer"]}
        files = str(sum(1 for _ in folder.rglob("*.py")))
        rows.append((f"{name} {version}", files, f"{seconds:.0f}", " ".join(f"{r}:{n}" for r, n in counts.items())))
        if pin:
            here = [f"{f['file']}:{f['line']}: {f['name']}" for f in broken if pin in f["releases"]]
            session.log(f"{name} {version} at its own pin {pin}: {here}")
            # One live bug is known: 0.5.15 pins 0.6.12, and its default SM120 decode imports what 0.6.14 is the first to have.
            known = ["sparse_mla_sm120_decode_dsv4"] if (name, version) == ("sglang", "0.5.15") else []
            assert len(here) == len(known) and all(k in line for k, line in zip(known, here, strict=True)), here
        shutil.rmtree(folder)
    show(session, rows)
    assert len(rows) > 1


@nox.session(venv_backend="none")
@timed
def environments(session: nox.Session) -> None:
    """The doctor on real environments made by pip; not part of CI (600 MB of downloads)."""
    session.run(
        str(tools()),
        str(SUPPORT / "real_environments.py"),
        str(CACHE / "environments"),
        str(CACHE / "trees"),
        str(ROOT),
        external=True,
    )
    shutil.rmtree(CACHE / "environments", ignore_errors=True)


@nox.session(venv_backend="none")
@timed
def gpu(session: nox.Session) -> None:
    """The MXFP4 MoE layer on a CUDA device, on the trees named (all by default); needs a Python with a CUDA torch and triton."""
    trees = CACHE / "gpu-trees"
    trees.mkdir(parents=True, exist_ok=True)
    names = session.posargs or [t.name for t in table("TREES")]
    for tree in table("TREES"):
        if tree.name in names:
            shutil.copytree(tree_folder(tree.distribution, tree.version), trees / tree.name, dirs_exist_ok=True)
    session.run(sys.executable, "tests/gpu/moe_layer.py", str(trees), str(CACHE / "moe.json"), *names, external=True)
