#!/usr/bin/env python3
"""Holds the projections of the CUDA backend against cuBLASLt on the same device, in one run.

gpu_compare.py PROGRAM: runs `PROGRAM dense` (cuda_product_bench), times torch's products of the
same shapes in bf16 and in FP8 (e4m3, one scale a tensor), and prints one table. Every call takes
other weights, more in all than the cache holds. Needs torch with CUDA.
"""

import subprocess
import sys

import torch

WARM_UPS = 3
LEAST_CALLS = 20
WEIGHT_BYTES = 400 << 20  # of all copies of a matrix, in bf16
ROUNDS = 3


def program_times(program):
    """Microseconds of `PROGRAM dense`, by shape and rows."""
    times = {}
    text = subprocess.run([program, "dense"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) >= 3 and cells[1].isdigit():
            times[(cells[0], int(cells[1]))] = float(cells[2])
    return times


def best_time(call, copies):
    """The best mean of some rounds, in microseconds."""
    calls = max(copies, LEAST_CALLS)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for i in range(WARM_UPS):
        call(i % copies)
    for _ in range(ROUNDS):
        begin.record()
        for i in range(calls):
            call(i % copies)
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / calls)
    return best


def bf16_time(rows, inner, outer):
    copies = max(1, WEIGHT_BYTES // (inner * outer * 2))
    def make(n):
        return torch.randn(n, inner, device="cuda", dtype=torch.bfloat16)
    weights = [make(outer) for _ in range(copies)]
    x = make(rows)
    return best_time(lambda i: torch.nn.functional.linear(x, weights[i]), copies)


def fp8_time(rows, inner, outer):
    """None where torch refuses the shape."""
    copies = max(1, WEIGHT_BYTES // (inner * outer))
    def make(n):
        return torch.randn(n, inner, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    weights = [make(outer).t() for _ in range(copies)]
    x, one = make(rows), torch.ones((), device="cuda")
    try:
        return best_time(lambda i: torch._scaled_mm(x, weights[i], scale_a=one, scale_b=one,
                                                    out_dtype=torch.bfloat16), copies)
    except RuntimeError:
        return None


SHAPES = {  # name in the program's table: in, out
    "wq_a + wkv, fp8": (5120, 1792),
    "wq_b, fp8": (1280, 32768),
    "wo_b, fp8": (8192, 5120),
    "head, bf16": (5120, 129280),
}


def main():
    times = program_times(sys.argv[1])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, microseconds")
    print("| matrix | rows | Thalweg | cuBLASLt bf16 | speed | cuBLASLt FP8 | speed |")
    print("|---|---|---|---|---|---|---|")
    for (name, rows), ours in sorted(times.items()):
        if name not in SHAPES:
            continue
        inner, outer = SHAPES[name]
        bf16 = bf16_time(rows, inner, outer)
        fp8 = fp8_time(rows, inner, outer) if "fp8" in name else None
        cells = [name, str(rows), f"{ours:.1f}", f"{bf16:.1f}", f"{bf16 / ours:.2f}"]
        cells += [f"{fp8:.1f}", f"{fp8 / ours:.2f}"] if fp8 else ["", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
