"""RCCL's sources, out of a git repository that the user has: a checkout or a bare mirror of meta-pytorch/torchcomms, whose RCCL is AMD's with Meta's
additions."""
import pathlib
import subprocess

from unavailable import Unavailable

COMMIT = "59426ba4bfee75800b2909274d200401c4d5d2df"  # RCCL 2.28.3, 21 August 2026
FOLDER = "comms/rcclx/develop/projects/rccl"
RECIPE = pathlib.Path(__file__).resolve().parent / "rccl/host/CMakeLists.txt"
KEPT = ("src", "makefiles")
HOW_TO = ("no sources of RCCL in the cache, and no package has them: git clone --bare https://github.com/meta-pytorch/torchcomms, then "
          "scripts/nccl-source --source torchcomms.git, once")


def is_rccl(source):
    """Whether a folder of sources is RCCL's, not NCCL's."""
    return (source / "src/rccl_wrap.cc").is_file()


def is_repository(path):
    """Whether `path` is a git repository that is not itself the folder of the sources."""
    if (path / "src/nccl.h.in").is_file():
        return False
    return subprocess.run(["git", "-C", str(path), "rev-parse", "--git-dir"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def export(repository, into):
    """Writes RCCL's sources into `into`, which must not exist. Raises Unavailable."""
    for name in KEPT:
        (into / name).mkdir(parents=True)
        archive = subprocess.run(["git", "-C", str(repository), "archive", f"{COMMIT}:{FOLDER}/{name}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if archive.returncode != 0:
            raise Unavailable(f"{repository} does not have {FOLDER}/{name} of commit {COMMIT[:9]} of meta-pytorch/torchcomms: "
                              f"{archive.stderr.decode(errors='replace').strip()}")
        subprocess.run(["tar", "-x", "-C", str(into / name)], input=archive.stdout, check=True)


def stand_ins():
    """The files that RCCL's host code is compiled with, beside its own and CUDA's."""
    return sorted([RECIPE, *(RECIPE.parent.parent / "include").rglob("*.h")])
