#!/usr/bin/env python3
"""Faults of one line, and the test that has to notice each: `make mutants`.

Each fault is put into a tree of its own (build/mutants/tree), the program of its test is built there and the test is run.
A fault that its test does not notice has survived, and is an error. Arguments: words that the names of faults must have;
or `--check`, which builds nothing and only finds the faults whose line is not once in its file, as the test mutants.lines does.
"""
import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parents[2]
home = here / "build" / "mutants"
tree = home / "tree"
build = tree / "build" / "release"  # as in a checkout, so that a compiler cache knows the files
jobs = os.environ.get("JOBS", "2")

# Name, file, line as it is, line with the fault, program, test.
faults = [
    ("backward's kernels take the stream of Torch's thread", "models/segment/function_node.cpp",
     "    if (forward_) in_order.emplace(*forward_);\n", "", "far", "late,orders"),
    ("a run on a device ends before its streams are over", "actors/hands/device_lane.cpp",
     "  if (use_ != device_use::none) TROUPE_TRY(stream_->finish());\n", "", "far", "late,orders"),
    ("LAMB reads norms that kernels have yet to write", "actors/hands/shard_executor.cpp",
     "  norms_written_.finish();\n", "", "far", "late,orders"),
    ("a reduction drops what the device's work came to", "fabric/movement.cpp",
     "  return stream.finish();", "  (void)stream.finish();\n  return {};", "far", "sessions"),
    ("an event stands before the work of its instruction", "actors/hands/device_lane.cpp",
     "  auto did = guarded([&] { return hands_->start(x); });\n", "  if (use_ != device_use::none) stream_->record(context_->work[x.id]);\n"
     "  auto did = guarded([&] { return hands_->start(x); });\n  if (use_ != device_use::none) return did;\n", "far", "late,orders"),
    ("the host does not wait for what the device has to write", "actors/hands/device_lane.cpp",
     "  on_host ? context_->work[on.id].finish() : stream_->wait(context_->work[on.id]);",
     "  if (!on_host) stream_->wait(context_->work[on.id]);", "far", "late,orders"),
    ("a lane waits once for another lane, and not again", "actors/hands/device_lane.cpp",
     "  if (position < awaited) return false;", "  if (awaited > 0) return false;", "far", "late,orders"),
    ("a lane has waited in this run for what it has waited for in the last one", "actors/hands/device_lane.cpp",
     "  awaited_.fill(0);\n", "", "far", "late,orders"),
    ("a pinned window is filled again before its copy is over", "actors/hands/pinned_ring.hpp",
     "    w.copied.finish();\n", "", "far", "late,orders"),
    ("new weights go up before the host has written them", "actors/hands/weight_uploads.hpp",
     "      update(run, first);\n      windows_.copy(piece.copy + first * copy_bytes, run.count * copy_bytes);\n",
     "      windows_.copy(piece.copy + first * copy_bytes, run.count * copy_bytes);\n      update(run, first);\n", "far", "sessions"),
    ("a collective ends before its copies and sums are over", "fabric/movement.cpp",
     "  return stream.finish();", "  return {};", "far", "late,orders"),
    ("Torch computes on another stream than the kernels of its thread", "device/stream.cpp",
     "    backend_of(device).make_current(mine.own.native());\n", "", "far", "late,orders"),
    ("the loss is divided by the stages, too", "actors/verdict.cpp",
     "  v.loss /= contributions;", "  v.loss /= contributions * (p.layout->stage_of_unit.back() + 1);", "parity", "pipeline"),
    ("a sample that is left out is taken where a range begins", "data/left_out.cpp",
     "std::ranges::upper_bound(taken_before_, taken);\n  if (after", "std::ranges::lower_bound(taken_before_, taken);\n  if (after",
     "data", "left_out"),
    ("a spike's own samples come again", "actors/run/spike_guard.cpp",
     "{back_to + 1, report.step + how.ahead_steps}", "{back_to + 1, report.step - 1 + how.ahead_steps}", "actors",
     "session_spike"),
    ("a tied weight counts twice in the norm", "plan/vote_layout.cpp",
     "  if (!l.trains(parameter) || l.is_copy(parameter)) return 0;", "  if (!l.trains(parameter)) return 0;", "plan", "tied"),
    ("gradients of tied weights are not added", "actors/hands/shard_executor.cpp",
     "  if (count == 0) return;\n  states_.sum_in_rank_order", "  if (count != 1) return;\n  states_.sum_in_rank_order",
     "parity", "torch_loop"),
    ("labels are those of another micro-batch", "actors/hands/compute_executor.cpp",
     "const auto& b = *context_->batches[micro];", "const auto& b = *context_->batches[0];", "parity", "torch_loop"),
    ("a stage takes the activation of the next micro-batch", "plan/write/transfers.cpp",
     "  slot& s = slots_.at(c);", "  slot& s = slots_.contains({std::get<0>(c), std::get<1>(c) + 1, std::get<2>(c)})\n"
     "                ? slots_.at({std::get<0>(c), std::get<1>(c) + 1, std::get<2>(c)})\n                : slots_.at(c);",
     "plan", "stages"),
    ("a transfer takes the bytes of its receiver", "plan/layout/pieces.cpp",
     "pipeline_of_stage(l_, from) ? 0 : 1;", "pipeline_of_stage(l_, from) ? 1 : 0;", "parity", "pipeline"),
    ("sums over micro-batches begin with the second", "job/step/collective_form.cpp",
     "x.micro != p.layout->first_micro(x.subject);", "x.micro > 1;", "parity", "any_order"),
    ("sums begin with the first number, not with what a stage writes first", "job/step/collective_form.cpp",
     "x.micro != p.layout->first_micro(x.subject);", "x.micro > 0;", "parity", "any_order"),
    ("samples go by rank, not by data position", "actors/rank.cpp",
     "data = s.context->plan().options().mesh.samples_at(s.setup.rank);", "data = s.setup.rank;", "parity", "pipeline"),
    ("weight parts write no gradients", "actors/hands/compute_executor.cpp",
     "    run->backward_weight(*this);", "    if (!training()) run->backward_weight(*this);", "parity", "pipeline"),
    ("a micro-batch overwrites the gradients of the one before", "actors/hands/weights/bound_parameters.cpp",
     "accumulate = run.gradients_written[place];", "accumulate = q > place;", "parity", "torch_loop"),
    ("a reduction does not wait for the last weight part", "plan/write/gradients.cpp",
     "  d_.depend(x, writer);\n", "", "plan", "stages"),
    ("replicas all vote", "plan/layout/pieces.cpp",
     "of_rank.replica() == 0 && (of_rank.tensor()", "true && (of_rank.tensor()", "plan", "check"),
    ("a clipped step updates what it has not undone", "actors/hands/shard_executor.cpp",
     "  if (!context_->acts(x.guard)) return {};", "  if (!context_->decide().skipped) return {};", "parity", "speculation"),
    ("a clipped step keeps the updates before its vote", "actors/verdict.cpp",
     "v.clipped = !v.skipped &&", "v.clipped = v.skipped &&", "parity", "speculation"),
    ("every tensor rank adds the last bias", "models/segment/projection.cpp",
     "bias && adds_bias ? bias->bound()", "bias ? bias->bound()", "parity", "tensor"),
    ("masks name heads by their place on a rank", "models/layers/fused_attention.cpp",
     "static_cast<uint64_t>(work_.shape.first_head)}", "uint64_t{0}}", "parity", "tensor"),
    ("a recompute takes the summand instead of the sum", "actors/hands/compute_executor.cpp",
     "exchanged.defined())", "exchanged.defined() && exchanged.dim() > 9)", "parity", "tensor"),
    ("a rank saves its share as the first one's", "actors/saving/save_content.cpp",
     "digest, p.options().mesh.tensor_at(part.rank)});", "digest, 0});", "parity", "elastic"),
    ("a save does not wait for the parts of other processes", "actors/saving/save_job.cpp",
     "if (leads_ || here_[r])", "if (here_[r])", "actors", "joined_saves"),
    ("a checkpoint removes older ones before anything proves it", "actors/saving/save_job.cpp",
     "removes = proved_;", "removes = true;", "actors", "save_job"),
    ("memory of a removed file is written over while it is read", "storage/files/memory_files.cpp",
     "explicit input(content of) : of_(std::move(of)) {}",
     "explicit input(content of) : of_(std::move(of)) { const auto data = of_.memory; of_.memory = {data.get(), [](auto*) {}}; }",
     "checkpoint", "memory_files_of_processes"),
    ("a load takes the elements of the first rank's share", "actors/loading/checkpoint_load.cpp",
     "of.options().mesh.tensor_at(of.rank)", "of.options().mesh.tensor_at(of.rank) * 0", "parity", "elastic"),
    ("padding lies between a share's elements in files", "actors/saving/save_content.cpp",
     "core::tp_slices(shape, cut, coordinate, core::tp_room::own)", "core::tp_slices(shape, cut, coordinate)", "parity", "elastic"),
    ("a host's rows are not divided by their rank's share", "models/inject/injection.cpp",
     "in_columns ? part : part.mul(1 / share);", "in_columns ? part : part.mul(share);", "models", "injection"),
    ("a host's columns begin with the vocabulary on every rank", "models/host/module_runner.cpp",
     "all.begin(), all.begin() + coordinate_, uint64_t{0}", "all.begin(), all.begin(), uint64_t{0}", "parity",
     "own_model_tensor"),
    ("a share of the vocabulary looks its tokens up as the first one's", "models/layers/embedding.cpp",
     "const at::Tensor places = ids.sub(own.first);", "const at::Tensor places = ids.sub(0);", "parity", "tensor"),
    ("a share of the vocabulary takes every target for one of the first share", "models/layers/loss.cpp",
     "if (own.first > 0) targets = targets.sub(own.first);", "if (own.first < 0) targets = targets.sub(own.first);",
     "parity", "tensor"),
    ("every tensor rank adds the residual path", "models/layers/dropout.cpp",
     "if (!adds) return std::move(y);", "if (!adds && !x.defined()) return std::move(y);", "parity", "tensor"),
    ("gradients are divided by the tensor ranks, too", "actors/verdict.cpp",
     "return 1.0 / (double(p.options().data())", "return 1.0 / (double(p.options().data() * p.options().mesh.tensor_ranks())",
     "parity", "tensor"),
    ("the loss is divided by the sequence ranks, too", "actors/verdict.cpp",
     "double(p.options().data()) * micros;", "double(p.options().data() * p.options().sequence_ranks()) * micros;",
     "parity", "sequence"),
    ("a rank's loss counts as if all had as many columns", "models/families/family_model.cpp",
     "static_cast<double>(given) / static_cast<double>(scope.batch().columns)", "(given > 0 ? 1.0 : 0.0)",
     "parity", "sequence"),
    ("positions of own columns begin at the first one", "models/layers/embedding.cpp",
     "y.add_(columns_of(positions->bound(), 0, scope.columns(), layers.first_position));",
     "y.add_(positions->bound().narrow(0, layers.first_position, scope.columns().count()));", "parity", "sequence"),
    ("queries and keys are turned by their place among own columns", "models/layers/rotary.cpp",
     "if (!scope.shares_columns()) return", "if (own.count() > 0) return", "parity", "sequence"),
    ("masks begin with the first column on every rank", "models/layers/dropout.cpp",
     "static_cast<uint64_t>(run.first + from - begins) * width);", "static_cast<uint64_t>(from - begins) * width);", "parity",
     "sequence"),
    ("a rank attends with the key-value head of its neighbour", "models/segment/sequence_parts.cpp",
     "add(from + (first + j) / repeats, to + j, 1);", "add(from + (first + j) % kv_heads, to + j, 1);", "parity",
     "sequence"),
    ("parts of a sequence are put together in reverse", "models/segment/sequence_parts.cpp",
     "for (const core::column_run& run : parts.columns_of(r).runs) {",
     "for (const core::column_run& run : parts.columns_of(parts.ranks() - 1 - r).runs) {", "parity", "sequence"),
    ("a part is exchanged to the place of another rank's", "plan/layout/pieces.cpp",
     "const uint64_t part = t * what.bytes;", "const uint64_t part = (ranks - 1 - t) * what.bytes;", "plan", "shared_cuts"),
    ("an exchange does not wait for what fills its slot", "plan/write/exchanges.cpp",
     "  d_.depend(e, x);\n", "", "plan", "shared_cuts"),
    ("gradients of a norm that tensor ranks share are added over data ranks alone", "plan/layout/communicators.cpp",
     "return bucket.over_tensor ?", "return bucket.over_tensor && tensor > 0 ?", "plan",
     "shared_cuts"),
    ("a norm that tensor ranks share is counted by each of them", "plan/layout/pieces.cpp",
     "(of_rank.tensor() == 0 || of_rank.layout().is_cut(q));", "(of_rank.tensor() < of_rank.layout().options.mesh.tensor_ranks());",
     "plan", "shared_cuts"),
    ("gradients of a norm of own tokens are not summed", "models/table/tp_split.cpp",
     "        share = core::tensor_share::summed;", "        share = core::tensor_share::alike;", "plan", "exchanges"),
    ("a rank drops the tokens of its neighbour behind a sharded norm", "models/segment/segment_scope.cpp",
     "own_columns(batch.columns, place.coordinate)", "own_columns(batch.columns, (place.coordinate + 1) % place.split.degree)",
     "parity", "sharded_norms"),
    ("every rank adds the bias of what is scattered", "models/segment/segment_scope.cpp",
     "!core::adds(table.units[first_unit + unit].segments[segment].output.op)",
     "table.units[first_unit + unit].segments[segment].output.op != core::exchange_op::sum", "parity", "sharded_norms"),
    ("norms of whole states are those of a tensor rank's share", "plan/layout/matrices.cpp",
     "return measured_elements(l) > 0 && collects_matrices(l);",
     "return measured_elements(l) > 0 && !l.options.updates_all();", "parity", "tensor"),
    ("dropout masks what a recompute takes again", "models/layers/dropout.cpp",
     "sum = is_input(y) ? y.clone(at::MemoryFormat::Contiguous) : y.detach();", "sum = y.detach();", "parity",
     "sharded_norms"),
    ("queries of own columns attend as if these were the first", "models/layers/fused_attention.cpp",
     "{static_cast<uint64_t>(b.first - b.document),", "{static_cast<uint64_t>(b.own),", "parity", "sequence"),
    ("a recompute's exchange is that of another micro-batch", "plan/write/exchanges.cpp",
     "  made.repeats = std::get<3>(at);",
     "  made.repeats = o.micro > 0 ? std::get<3>(at) : repetition::none;", "plan", "exchanges"),
    ("passes of the entry before stay", "job/changed_steps.cpp",
     "compile_step(*b.config, b.table, b.plain, wish, b.costs,",
     "compile_step(*b.config, b.table, b.options[static_cast<size_t>(plan::plan_choice::train)], wish, b.costs,", "parity",
     "passes"),
    ("a budget of passes counts the states alone", "job/compile.cpp",
     "c.compile.memory_budget / ranks, c.cuda", "0, c.cuda", "parity", "passes"),
    ("a unit that keeps its activations counts as one that recomputes", "plan/place/place.cpp",
     "again = p.options().recomputes(x.subject);", "again = p.options().recompute;", "plan", "memory"),
    ("llama.cpp's rows of queries stay in the order of models", "formats/gguf/families.hpp",
     "return row % 2 * (width / 2) + row / 2;", "return row + 0 * width;", "formats", "gguf_source"),
    ("tensors of a GGUF file may overlap", "formats/gguf/header.cpp",
     "if (order[i]->offset_bytes < order[i - 1]->offset_bytes + order[i - 1]->bytes())",
     "if (order[i]->offset_bytes < order[i - 1]->offset_bytes)", "formats", "gguf_format"),
    ("a scale that is not finite is a number", "kernels/compress/block_formats.cpp",
     "  if (magnitude_bits(scale) >= infinite_bits || magnitude_bits(least) >= infinite_bits) return false;\n", "",
     "kernels", "block_formats"),
]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], **options)


def prepare():
    home.mkdir(parents=True, exist_ok=True)
    run("git", "-C", here, "worktree", "prune", check=True)
    if tree.exists():
        run("git", "-C", tree, "checkout", "--quiet", "--detach", "--force",
            run("git", "-C", here, "rev-parse", "HEAD", capture_output=True, text=True, check=True).stdout.strip(), check=True)
    else:
        run("git", "-C", here, "worktree", "add", "--quiet", "--detach", tree, check=True)
    if not (tree / ".venv").exists():
        (tree / ".venv").symlink_to(here / ".venv")
    run("cmake", "--preset", "release", "-B", build, cwd=tree, check=True, stdout=subprocess.DEVNULL)


def made(program):
    return run("ninja", "-C", build, "-j", jobs, "tests_" + program, stdout=subprocess.DEVNULL).returncode == 0


def passes(program, test):
    return run(build / "tests" / program / ("tests_" + program), "--run_test=" + test, stdout=subprocess.DEVNULL,
               stderr=subprocess.DEVNULL, timeout=900).returncode == 0


def check(root):
    """Ends with the list of all faults that cannot be put into the sources at `root`, if there are any."""
    stale = []
    for name, file, right, _, _, _ in faults:
        path = root / file
        found = path.read_text().count(right) if path.is_file() else 0
        if found != 1:
            stale.append(f"mutants: {name}: {file}: wanted once, got {found} times: {right.strip()}")
    if stale:
        sys.exit("\n".join(stale))


def main():
    if sys.argv[1:] == ["--check"]:
        return check(here)
    wanted = [f for f in faults if all(word in f[0] for word in sys.argv[1:])]
    prepare()
    check(tree)  # all of them: a line that has changed is found in any run
    for program, test in sorted({(f[4], f[5]) for f in wanted}):
        if not made(program) or not passes(program, test):
            sys.exit(f"mutants: tests_{program} {test} does not pass without a fault")
    survived = 0
    for name, file, right, wrong, program, test in wanted:
        path = tree / file
        text = path.read_text()
        path.write_text(text.replace(right, wrong))
        if not made(program):
            path.write_text(text)
            sys.exit(f"mutants: {name}: tests_{program} does not build with it")
        killed = not passes(program, test)
        path.write_text(text)
        print(f"{'killed' if killed else 'SURVIVED'} by {program}.{test}: {name}", flush=True)
        survived += not killed
    print(f"{len(wanted) - survived} of {len(wanted)} faults were noticed")
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
