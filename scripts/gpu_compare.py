#!/usr/bin/env python3
"""Holds the CUDA backend against what PyTorch has on the same device, in one run.

gpu_compare.py FOLDER: below FOLDER are cuda_product_bench and, for selection, cuda_index_bench (or
name the two programs). Prints two tables:

- projections of `cuda_product_bench dense`, exact and fast, against cuBLASLt's products of the same
  shapes in bf16 and in FP8 (e4m3, one scale a tensor); groups of wo_a against a batched product.
  Every call takes other weights, more in all than the cache holds;
- the choice of 512 entries of a row, from its scores on, against torch.topk of bf16 scores.

Calls of PyTorch are replayed from a graph, so that its launches cost nothing. `speed` is its time
over the better of the two. Needs torch with CUDA.
"""

import pathlib
import re
import subprocess
import sys

import torch

LEAST_CALLS = 20
WEIGHT_BYTES = 400 << 20  # of all copies of a matrix, in bf16
ROUNDS = 3
TOPK = 512
SHAPES = {  # name in the program's table: in, out, groups
    "wq_a + wkv, fp8": (5120, 1792, 1),
    "wq_b, fp8": (1280, 32768, 1),
    "wo_a, fp8, 8 groups": (4096, 8192, 8),
    "wo_b, fp8": (8192, 5120, 1),
    "head, bf16": (5120, 129280, 1),
}


def find(places, name):
    """The program of that name among files and below folders; None where there is none."""
    for place in map(pathlib.Path, places):
        if place.is_file() and place.name == name:
            return place.resolve()
        for path in sorted(place.rglob(name)) if place.is_dir() else []:
            return path.resolve()
    return None


def output_of(*command):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def product_times(program):
    """Microseconds by shape and rows, a dictionary for each numerics."""
    times, now = {}, None
    for line in output_of(program, "dense").splitlines():
        if line.endswith(" numerics"):
            now = times.setdefault(line.split()[0], {})
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) >= 3 and cells[1].isdigit():
            now[(cells[0], int(cells[1]))] = float(cells[2])
    return times


def best_time(call, copies):
    """The best mean of some rounds, in microseconds; call(i) takes copy i."""
    calls = max(copies, LEAST_CALLS)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(3):
            call(i % copies)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i % copies)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    graph.replay()
    for _ in range(ROUNDS):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / calls)
    return best


def bf16_time(rows, inner, outer, groups):
    copies = max(1, WEIGHT_BYTES // (inner * outer * 2))
    def make(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    if groups > 1:
        weights = [make(groups, inner, outer // groups) for _ in range(copies)]
        x = make(groups, rows, inner)
        return best_time(lambda i: torch.bmm(x, weights[i]), copies)
    weights = [make(outer, inner) for _ in range(copies)]
    x = make(rows, inner)
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


def speed(theirs, ours):
    return ["", ""] if theirs is None else [f"{theirs:.1f}", f"{theirs / ours:.2f}"]


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def compare_products(program):
    times = product_times(program)
    print("| matrix | rows | exact, us | fast, us | cuBLASLt bf16 | speed | cuBLASLt FP8 | speed |")
    print("|---|---|---|---|---|---|---|---|")
    slower = 0
    for name, (inner, outer, groups) in SHAPES.items():
        for rows in sorted(n for shape, n in times["exact"] if shape == name):
            exact, fast = times["exact"][(name, rows)], times.get("fast", {}).get((name, rows))
            best = min(exact, fast or exact)
            bf16 = bf16_time(rows, inner, outer, groups)
            fp8 = fp8_time(rows, inner, outer) if "fp8" in name and groups == 1 else None
            slower += bf16 < best
            print_row([name, str(rows), f"{exact:.1f}", f"{fast:.1f}" if fast else "",
                       *speed(bf16, best), *speed(fp8, best)])
            torch.cuda.empty_cache()
    print(f"\nslower than bf16: {slower}\n")


def compare_selections(program):
    """Lines of the program's table of times: name, rows, entries, ..., select, TFLOP/s."""
    print("| selection | rows | entries | us | torch.topk, us | speed |")
    print("|---|---|---|---|---|---|")
    for line in output_of(program).splitlines():
        found = re.match(r"(\S.*?) +(\d+) +(\d+) ((?: *[\d.]+){9})$", line)
        if found is None or "inside" in found[1]:
            continue
        rows, entries, ours = int(found[2]), int(found[3]), float(found[4].split()[-2])
        scores = torch.randn(rows, entries, device="cuda", dtype=torch.bfloat16)
        theirs = best_time(lambda _: torch.topk(scores, TOPK, dim=1, sorted=False), 1)
        print_row([found[1], str(rows), str(entries), f"{ours:.1f}", *speed(theirs, ours)])


def main():
    if len(sys.argv) < 2:
        sys.exit("gpu_compare.py FOLDER: where cuda_product_bench and cuda_index_bench are")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    product = find(sys.argv[1:], "cuda_product_bench")
    index = find(sys.argv[1:], "cuda_index_bench")
    if product is None and index is None:
        sys.exit("gpu_compare: no cuda_product_bench and no cuda_index_bench there")
    if product is not None:
        compare_products(product)
    if index is not None:
        compare_selections(index)


if __name__ == "__main__":
    main()
