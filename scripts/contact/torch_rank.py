"""One rank of PyTorch's DistributedDataParallel on the GPU 0, through NCCL. Environment: RANK, WORLD_SIZE, INIT. After the last step all
ranks must have equal parameters. A last line "skipped: why" where this PyTorch has no NCCL or no GPU."""
import os
import sys
import time

import torch
import torch.distributed as dist

if not torch.cuda.is_available() or not dist.is_nccl_available():
    print("skipped: this torch has no CUDA GPU, or no NCCL")
    sys.exit(1)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", init_method=os.environ["INIT"], rank=rank, world_size=ranks)
torch.manual_seed(rank)  # DDP must make the parameters equal
layers = [torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
begin, steps = time.monotonic(), 0
while steps < 2000:
    optimizer.zero_grad()
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    steps += 1
    over = torch.tensor([float(time.monotonic() - begin > 40)], device="cuda")  # all ranks end with the same step
    dist.all_reduce(over)
    if over.item() > 0:
        break
total = torch.stack([parameter.detach().double().sum() for parameter in model.parameters()]).sum().reshape(1)
each = [torch.zeros_like(total) for _ in range(ranks)]
dist.all_gather(each, total)
if any(one.item() != each[0].item() for one in each):
    print(f"WRONG: after {steps} steps the parameters of the ranks differ: {[one.item() for one in each]}")
    sys.exit(1)
print(f"DDP, torch {torch.__version__}, NCCL {torch.cuda.nccl.version()}: {steps} steps, equal parameters")
dist.destroy_process_group()
