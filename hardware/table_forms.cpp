// Owns the forms of tables: which columns each has, and what its runs share that no column says. Sources: the notes of
// each published table, which docs/foresight.md lists.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/text.hpp"
#include "hardware/table.hpp"

namespace troupe::hardware {
namespace {

constexpr double tera = 1e12, giga = 1e9, gibi = 1024.0 * 1024.0 * 1024.0, milli = 1e-3, nano = 1e-9;

/// Returns the micro-batches of a step and pipeline; refuses a global batch that these do not divide.
double micro_batches_of(row_reader& row, std::string_view batch, double data, double micro_batch) {
  const double out = row.count(batch) / data / micro_batch;
  if (out < 1 || out != std::floor(out)) row.refuse(batch, fmt::format("a multiple of {:g}", data * micro_batch));
  return out;
}

void check_gpus(row_reader& row, std::string_view column, const workload& w) {
  const double product = w.tensor * w.pipeline * w.data * w.context;
  if (row.count(column) != product) row.refuse(column, fmt::format("the product of the degrees, {:g}", product));
}

/// Refuses heads that tensor ranks, or groups of queries, do not divide.
void check_heads(row_reader& row, const workload& w) {
  const auto divides = [](double whole, double part) { return std::fmod(whole, part) == 0; };
  if (!divides(w.hidden, w.heads))
    row.fail_with(fmt::format("hidden {:g} is no multiple of heads {:g}", w.hidden, w.heads));
  if (!divides(w.heads, w.kv_heads))
    row.fail_with(fmt::format("heads {:g} are no multiple of kv_heads {:g}", w.heads, w.kv_heads));
  if (!divides(w.heads, w.tensor))
    row.fail_with(fmt::format("heads {:g} are no multiple of the tensor degree {:g}", w.heads, w.tensor));
}

/// True if the cell says that the run ended for lack of memory.
bool says_ran_out(std::string_view cell) { return core::lowered(cell) == "oom"; }

void add_sample(std::vector<sample>& out, quantity of, shape what, double measured) {
  out.push_back(
      {.line = 0, .stack_index = 0, .of = of, .what = std::move(what), .measured = measured, .ran_out = false});
}

/// Adds the step that column `iteration_s` has, unless the run ended for lack of memory, and the peak of memory.
void add_step(row_reader& row, const workload& w, std::vector<sample>& out) {
  if (!says_ran_out(row.text("iteration_s"))) {
    add_sample(out, quantity::step, w, row.positive("iteration_s"));
    return;
  }
  add_sample(out, quantity::memory, w, 0);
  out.back().ran_out = true;
}

/// Returns true if the width of the MLP is that of a gated one: without a gate it is four times the hidden size.
bool is_gated(row_reader& row, const workload& w) {
  return row.has("gated") ? row.flag("gated") : w.ffn != 4 * w.hidden;
}

void read_sizes(row_reader& row, workload& w) {
  w.hidden = row.count("hidden");
  w.heads = w.kv_heads = row.count("heads");
  w.layers = row.count("layers");
  w.sequence = row.count("sequence");
  w.ffn = 4 * w.hidden;
  if (row.has("ffn")) w.ffn = row.count("ffn");
  if (row.has("kv_heads")) w.kv_heads = row.count("kv_heads");
  if (row.has("vocabulary")) w.vocabulary = row.count("vocabulary");
}

void read_degrees(row_reader& row, workload& w) {
  w.tensor = row.count("tensor");
  w.pipeline = row.count("pipeline");
  w.data = row.count("data");
  if (row.has("context")) w.context = row.count("context");
  if (row.has("micro_batch")) w.micro_batch = row.count("micro_batch");
  check_gpus(row, "gpus", w);
  check_heads(row, w);
}

/// Sets what runs of Megatron-LM with fused attention share: ZeRO-1, no recomputation, gradients reduced in fp32 and
/// gathered in bf16 (3 bytes each way).
void set_fused_megatron(workload& w) {
  w.zero = 1;
  w.fused_attention = w.causal_skip = w.sequence_parallel = w.untied = true;
  w.grad_bytes = 3;
}

void read_iterations(row_reader& row, double /*shared*/, const stack& by, std::vector<sample>& out) {
  workload w;
  w.hidden = row.count("hidden size");
  w.ffn = 4 * w.hidden;
  w.heads = w.kv_heads = row.count("attention heads");
  w.layers = row.count("# layers");
  w.sequence = row.count("sequence length");
  w.vocabulary = 51200;
  w.tensor = row.count("tensor parallelism");
  w.data = row.count("data parallelism");
  w.pipeline = row.count("pipeline parallelism");
  w.micro_batch = row.count("micro batch");
  w.micro_batches = micro_batches_of(row, "global batch", w.data, w.micro_batch);
  if (by.recompute < 0)
    row.fail_with(
        fmt::format("the table has no column that says whether activations are recomputed, and {} states no "
                    "runs.recompute",
                    by.file));
  w.recompute = by.recompute == 1;
  check_gpus(row, "# GPUs", w);
  check_heads(row, w);
  add_sample(out, quantity::step, w, row.positive("iteration time (ms)") * milli);
}

void read_dated_runs(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  workload w;
  read_sizes(row, w);
  read_degrees(row, w);
  w.micro_batches = micro_batches_of(row, "global_batch", w.data, w.micro_batch);
  w.recompute = true;
  const auto stage = row.text("zero_stage");
  if (stage != "0" && stage != "1") row.refuse("zero_stage", "0 or 1");
  w.zero = stage == "1" ? 1 : 0;
  const bool sums_fp32 = row.text("precision").find("fp32") != std::string_view::npos;
  w.grad_bytes = sums_fp32 ? 4 : 2;
  w.main_grad_bytes = sums_fp32 ? 6 : 2;  // gradients in 16 bits and their sum in fp32
  const auto date = row.text("date");
  constexpr size_t digits_of_date = 5;
  if (date.size() != digits_of_date || date[2] != '-') row.refuse("date", "MM-DD");
  w.slow_pcie = date < "02-25";  // the day on which the nodes' PCIe settings were improved
  w.embedding_is_layer = date >= "02-28" && std::fmod(w.layers + 2, w.pipeline) == 0;
  add_step(row, w, out);
  const auto peak = row.text("memory_gb");
  if (!peak.empty() && !says_ran_out(peak) && !out.back().ran_out)
    add_sample(out, quantity::memory, w, row.positive("memory_gb") * giga);
}

void read_sharded_runs(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  workload w;
  read_sizes(row, w);
  w.data = row.count("gpus");
  w.micro_batch = row.count("micro_batch");
  w.micro_batches = row.count("accumulation");
  if (row.count("global_batch") != w.data * w.micro_batch * w.micro_batches)
    row.refuse("global_batch",
               fmt::format("gpus x micro_batch x accumulation, {:g}", w.data * w.micro_batch * w.micro_batches));
  w.vocabulary = 50368;
  w.recompute = row.flag("recompute");
  w.early_stop = w.fused_attention = w.causal_skip = w.bias = w.learned_positions = true;
  const auto sharding = row.text("sharding"), precision = row.text("precision");
  if (sharding != "FULL_SHARD" && sharding != "SHARD_GRAD_OP") row.refuse("sharding", "FULL_SHARD or SHARD_GRAD_OP");
  w.zero = sharding == "FULL_SHARD" ? 3 : 2;
  if (precision != "amp_bf16" && precision != "bf16") row.refuse("precision", "amp_bf16 or bf16");
  w.reduce_bytes = precision == "amp_bf16" ? 4 : 2;
  if (row.flag("offload_activations")) row.refuse("offload_activations", "0, because copies to the host have no price");
  check_heads(row, w);
  add_step(row, w, out);
}

void read_released_runs(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  workload w;
  read_sizes(row, w);
  read_degrees(row, w);
  set_fused_megatron(w);
  w.chunks = row.count("virtual_pipeline");
  w.micro_batches = micro_batches_of(row, "global_batch", w.data, w.micro_batch);
  w.gated = is_gated(row, w);
  const auto precision = row.text("precision");
  if (precision != "bf16" && precision != "fp8") row.refuse("precision", "bf16 or fp8");
  w.product_rate_factor = precision == "fp8" ? 2 : 1;
  if (row.flag("fsdp")) {
    w.zero = 3;
    w.reduce_bytes = 4;
  }
  add_step(row, w, out);
}

void read_allocated_runs(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  workload w;
  read_sizes(row, w);
  read_degrees(row, w);
  set_fused_megatron(w);
  w.main_grad_bytes = 4;
  w.micro_batches = row.count("accumulation");
  if (row.count("global_batch") != w.data * w.micro_batch * w.micro_batches)
    row.refuse("global_batch",
               fmt::format("data x micro_batch x accumulation, {:g}", w.data * w.micro_batch * w.micro_batches));
  w.gated = is_gated(row, w);
  add_step(row, w, out);
  if (!out.back().ran_out) add_sample(out, quantity::memory, w, row.positive("peak_allocated_gib") * gibi);
}

/// Micro-batches and chunks of the runs of Narayanan et al. 2021, whose table does not state them. Source:
/// examples/sc21/run_table_1.sh of NVIDIA/Megatron-LM, by hidden size.
struct published_cut {
  double hidden, micro_batch, chunks;
};
constexpr published_cut published_cuts[] = {{2304, 16, 1}, {3072, 16, 1}, {4096, 16, 1}, {6144, 8, 1},  {8192, 4, 1},
                                            {10240, 2, 3}, {12288, 2, 2}, {16384, 1, 2}, {20480, 1, 3}, {25600, 1, 1}};

void read_rated_runs(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  workload w;
  read_sizes(row, w);
  read_degrees(row, w);
  const auto repeated = row.has("recompute") ? row.text("recompute") : "full";
  if (repeated != "none" && repeated != "selective" && repeated != "full")
    row.refuse("recompute", "none, selective or full");
  w.recompute = repeated == "full";
  w.selective = repeated == "selective";
  if (row.has("sequence_parallel")) w.sequence_parallel = row.flag("sequence_parallel");
  const auto* const cut = std::ranges::find(published_cuts, w.hidden, &published_cut::hidden);
  if (row.has("micro_batch") != row.has("virtual_pipeline"))
    row.fail_with("micro_batch and virtual_pipeline: wanted both columns or none");
  else if (row.has("micro_batch"))
    w.chunks = row.count("virtual_pipeline");
  else if (cut == std::end(published_cuts))
    row.refuse("hidden", "a size whose micro-batch is published, or the columns micro_batch and virtual_pipeline");
  else
    w.micro_batch = cut->micro_batch, w.chunks = cut->chunks;
  w.micro_batches = micro_batches_of(row, "global_batch", w.data, w.micro_batch);
  add_step(row, w, out);
}

void read_products(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  product_shape p;
  p.m = row.count("m");
  p.n = row.count("n");
  p.k = row.count("k");
  const auto layout = row.text("layout"), output = row.text("output");
  if (layout != "TN" && layout != "NN" && layout != "NT") row.refuse("layout", "TN, NN or NT");
  p.layout = layout == "NN" ? product_layout::nn : layout == "NT" ? product_layout::nt : product_layout::tn;
  if (output != "bf16" && output != "fp32") row.refuse("output", "bf16 or fp32");
  p.out_bytes = output == "fp32" ? 4 : 2;
  p.accumulate = row.flag("accumulate");
  const double flops_per_s = row.positive("share_of_peak") * row.positive("peak_tflops") * tera;
  add_sample(out, quantity::product, p, 2 * p.m * p.n * p.k / flops_per_s);
}

void read_attention(row_reader& row, double /*shared*/, const stack&, std::vector<sample>& out) {
  attention_shape a;
  a.batch = row.count("batch");
  a.heads = row.count("heads");
  a.sequence = row.count("sequence");
  a.qk_width = row.count("qk_width");
  a.v_width = row.count("v_width");
  const auto pass = row.text("pass");
  if (pass != "forward" && pass != "backward") row.refuse("pass", "forward or backward");
  a.backward = pass == "backward";
  const double width = a.backward ? 3 * a.qk_width + 2 * a.v_width : a.qk_width + a.v_width;
  const double flops = 2 * a.batch * a.heads * a.sequence * a.sequence * width;  // causal work is counted whole
  add_sample(out, quantity::attention, a, flops / (row.positive("share_of_peak") * row.positive("peak_tflops") * tera));
}

/// Returns the ranks of a table of nccl-tests. No column says it, but the bus bandwidth of an all-reduce is defined as
/// 2 (ranks - 1) / ranks x bytes / time: the median over all rows, because times are rounded.
double ranks_of(const csv_file& all) {
  std::vector<double> factors;
  for (const auto& cells : all.rows) {
    row_reader row(all, cells);
    const double bytes = row.positive("size(B)"), time_s = row.positive("time(ns)") * nano;
    factors.push_back(row.positive("busbw(GB/s)") * giga * time_s / bytes);
  }
  const auto middle = factors.begin() + static_cast<ptrdiff_t>(factors.size() / 2);
  std::nth_element(factors.begin(), middle, factors.end());
  return std::round(2 / (2 - *middle));
}

void read_all_reduce(row_reader& row, double ranks, const stack& by, std::vector<sample>& out) {
  all_reduce_shape a;
  a.bytes = row.positive("size(B)");
  const double time_s = row.positive("time(ns)") * nano;
  a.ranks = ranks;
  row.positive("busbw(GB/s)");
  if (!(a.ranks >= 2))
    row.refuse("busbw(GB/s)", "2 (ranks - 1) / ranks x size / time of at least 2 ranks");
  else if (a.ranks > by.on.node_gpus)
    row.fail_with(fmt::format("busbw(GB/s) is one of {:g} ranks, and a node of {} has {:g}", a.ranks, by.on.name,
                              by.on.node_gpus));
  add_sample(out, quantity::all_reduce, a, time_s);
}

}  // namespace

std::span<const table_form> table_forms() {
  static const std::vector<table_form> all = {
      {"iterations",
       {"# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers", "sequence length",
        "tensor parallelism", "data parallelism", "pipeline parallelism", "iteration time (ms)"},
       {"Parameters (billion)"},
       false,
       read_iterations},
      {"all_reduce", {"size(B)", "time(ns)", "busbw(GB/s)"}, {"count", "type"}, true, read_all_reduce, ranks_of},
      {"dated_runs",
       {"gpus", "hidden", "layers", "heads", "sequence", "vocabulary", "zero_stage", "data", "tensor", "pipeline",
        "micro_batch", "global_batch", "memory_gb", "iteration_s", "date", "precision"},
       {"nodes"},
       false,
       read_dated_runs},
      {"sharded_runs",
       {"device", "layers", "hidden", "heads", "sequence", "gpus", "micro_batch", "accumulation", "global_batch",
        "precision", "sharding", "recompute", "offload_activations", "iteration_s"},
       {"model", "parameters", "tokens_per_s"},
       false,
       read_sharded_runs},
      {"released_runs",
       {"layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary", "sequence", "gpus", "tensor", "pipeline",
        "virtual_pipeline", "context", "data", "fsdp", "micro_batch", "global_batch", "precision", "iteration_s"},
       {"release", "model", "gated"},
       false,
       read_released_runs},
      {"allocated_runs",
       {"layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary", "sequence", "gpus", "tensor", "pipeline",
        "context", "data", "micro_batch", "accumulation", "global_batch", "iteration_s", "peak_allocated_gib"},
       {"model", "gated"},
       false,
       read_allocated_runs},
      {"rated_runs",
       {"heads", "hidden", "layers", "sequence", "vocabulary", "tensor", "pipeline", "data", "gpus", "global_batch",
        "iteration_s"},
       {"parameters_billion", "tflops_per_gpu", "micro_batch", "virtual_pipeline", "recompute", "sequence_parallel"},
       false,
       read_rated_runs},
      {"products",
       {"device", "peak_tflops", "m", "k", "n", "layout", "accumulate", "output", "share_of_peak"},
       {"tflops"},
       false,
       read_products},
      {"attention",
       {"device", "peak_tflops", "pass", "batch", "sequence", "heads", "qk_width", "v_width", "share_of_peak"},
       {"kv_heads", "contiguous"},
       false,
       read_attention},
  };
  return all;
}

}  // namespace troupe::hardware
