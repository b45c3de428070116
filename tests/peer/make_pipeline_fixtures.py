"""PyTorch's own pipeline schedules: tests/plan/fixtures/pipeline_schedules. Run by `make peer`; the result is committed.

`digests.txt` has a line for each schedule and size that PyTorch accepts, 2 to 8 ranks and up to four micro-batches a
rank: name, ranks, chunks a rank, micro-batches, and the 64-bit FNV-1a of the table as text, without and with sends and
receives. That text has a line for each rank, its actions between commas, and no idle cells. Some tables are there as a
whole, as PyTorch's own CSV writer spells them: idle cells, lines that end in CR LF.
"""

import csv
import pathlib
import sys
import types

from torch.distributed.pipelining import schedules

ONE_CHUNK = {"GPipe"}
FOLDED = {"ZBVZeroBubble", "DualPipeV"}
NAMES = {"GPipe": (1,), "Interleaved1F1B": (1, 2, 3), "InterleavedZeroBubble": (1, 2, 3), "ZBVZeroBubble": (2,),
         "DualPipeV": (2,)}
WHOLE = [("GPipe", 3, 1, 4), ("Interleaved1F1B", 2, 2, 4), ("InterleavedZeroBubble", 2, 2, 8),
         ("ZBVZeroBubble", 3, 2, 5), ("DualPipeV", 2, 2, 6)]


def table(name, ranks, chunks, micro_batches):
    """[rank] its actions, None where it is idle; or None where PyTorch refuses the size."""
    stages = [types.SimpleNamespace(num_stages=ranks * chunks, group_size=ranks, group_rank=0, stage_index=i * ranks,
                                    is_first=False, is_last=False, submod=None, has_backward=True)
              for i in range(chunks)]
    made = getattr(schedules, "Schedule" + name)
    try:
        out = made(stages[0] if name in ONE_CHUNK else stages, micro_batches, loss_fn=lambda *_: None)
    except ValueError:
        return None
    order = out.pipeline_order
    return [[a for a in order[r] if a is None or a.computation_type != schedules.REDUCE_GRAD] for r in range(ranks)]


def with_transfers(name, ranks, chunks, rows):
    style = "v" if name in FOLDED else "loop"
    place = schedules.generate_stage_to_rank_mapping(ranks, ranks * chunks, style=style)
    compute = {r: [a for a in row if a is not None] for r, row in enumerate(rows)}
    out = schedules._add_send_recv(compute, lambda stage: place[stage], ranks * chunks)
    return [out[r] for r in range(ranks)]


def digest(rows):
    text = "".join(",".join(str(a) for a in row if a is not None) + "\n" for row in rows)
    out = 0xCBF29CE484222325
    for byte in text.encode():
        out = (out ^ byte) * 0x100000001B3 % 2**64
    return f"{out:016x}"


def write(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def main():
    default = pathlib.Path(__file__).parents[1] / "plan" / "fixtures" / "pipeline_schedules"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    lines = []
    for name, counts in NAMES.items():
        for ranks in range(2, 9):
            for chunks in counts:
                for micro_batches in range(1, 4 * ranks + 1):
                    rows = table(name, ranks, chunks, micro_batches)
                    if rows is None:
                        continue
                    sent = with_transfers(name, ranks, chunks, rows)
                    lines.append(f"{name} {ranks} {chunks} {micro_batches} {digest(rows)} {digest(sent)}\n")
    (folder / "digests.txt").write_text("".join(lines))
    for name, ranks, chunks, micro_batches in WHOLE:
        rows = table(name, ranks, chunks, micro_batches)
        stem = f"{name}_{ranks}_{chunks}_{micro_batches}"
        write(folder / f"{stem}.csv", rows)
        write(folder / f"{stem}_with_transfers.csv", with_transfers(name, ranks, chunks, rows))
    # The published ZB1P table with transfers has a backward whose parts are neighbours as one action.
    rows = [schedules._merge_bw(list(row)) for row in table("InterleavedZeroBubble", 2, 2, 8)]
    write(folder / "InterleavedZeroBubble_2_2_8_merged_with_transfers.csv",
          with_transfers("InterleavedZeroBubble", 2, 2, rows))


if __name__ == "__main__":
    main()
