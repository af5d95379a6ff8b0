"""Railwise for Python: where its NCCL network plugin lies, and NCCL's view of this machine.

    import railwise
    railwise.use_plugin()                  # before torch.distributed.init_process_group("nccl")

    from railwise import topology
    machine = topology.load()
    print(machine.nic_of(0).name)          # the NIC that NCCL gives GPU 0

docs/python.md of the project has more. Everything here is thread-safe, except use_plugin(), which changes os.environ.
"""

from railwise import topology
from railwise._errors import Error
from railwise._library import version
from railwise._plugin import environment, plugin_path, use_plugin

__all__ = ["Error", "environment", "plugin_path", "topology", "use_plugin", "version"]
