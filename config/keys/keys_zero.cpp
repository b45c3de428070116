// Every field of DeepSpeed's `zero_optimization` section that is a value. Leaves nested sections to keys_offload.cpp.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using zero = zero_section;
constexpr auto section_of = &job::zero_optimization;

key_info& row(key_rows& t, const char* name, value_type type, const char* by_default) {
  key_info& made = t.row(std::string("zero_optimization.") + name, type).by_default(by_default);
  if (type == integer) made.at_least(0);
  return made;
}

key_info& flag(key_rows& t, const char* name, const char* by_default) { return row(t, name, boolean, by_default); }

void add_buckets_and_partition(key_rows& t) {
  row(t, "stage", integer, "0")
      .at_most(3)
      .into<section_of, &zero::stage>()
      .means(
          "What is cut over the data-parallel ranks: 0 nothing, 1 optimizer states, 2 gradients too, 3 parameters "
          "too.");
  row(t, "contiguous_gradients", boolean, "true")
      .into<section_of, &zero::contiguous_gradients>()
      .ignored("a gradient is always written straight into its bucket")
      .means("Write gradients into one bucket buffer as they are produced.");
  row(t, "reduce_scatter", boolean, "true")
      .into<section_of, &zero::reduce_scatter>()
      .means("Stage 1: a rank receives only the gradients it owns; false: all of them. Always so at stages 2 and 3.");
  row(t, "reduce_bucket_size", integer, "500000000")
      .into<section_of, &zero::reduce_bucket_size>()
      .tells<section_of, &zero::reduce_bucket_size_given>()
      .means(
          "Elements of a gradient bucket; 0: one parameter each; not given with overlap_comm: as many as the largest "
          "unit has; not given where gradients are swapped: what the plan chooses.");
  row(t, "allgather_bucket_size", integer, "500000000")
      .into<section_of, &zero::allgather_bucket_size>()
      .tells<section_of, &zero::allgather_bucket_size_given>()
      .means("Stages 1, 2: elements of one gather of updated parameters; 0: all at once.");
  row(t, "overlap_comm", boolean, "derived")
      .or_null()
      .into<section_of, &zero::overlap_comm>()
      .means(
          "Reduce and gather while computing; false: backward waits for each bucket, and nothing is prefetched. Not "
          "given, or null: true at every stage.");
  row(t, "round_robin_gradients", boolean, "false")
      .into<section_of, &zero::round_robin_gradients>()
      .means("Blocks that do not divide evenly go to the ranks in turn; false: to those that own least so far.");
  row(t, "sub_group_size", integer, "1000000000")
      .at_least(0)
      .into<section_of, &zero::sub_group_size>()
      .tells<section_of, &zero::sub_group_size_given>()
      .means(
          "Elements of a rank's partition that one update instruction works on; closes with the parameter that reaches "
          "it; 0: one parameter each; not given where states are swapped: what the plan chooses.");
}

void add_stage_3_sizes(key_rows& t) {
  row(t, "stage3_prefetch_bucket_size", integer, "50000000")
      .also("prefetch_bucket_size")
      .into<section_of, &zero::stage3_prefetch_bucket_size>()
      .means("Stage 3: elements gathered ahead of use, at least one unit; 0: none.");
  row(t, "stage3_param_persistence_threshold", integer, "100000")
      .also("param_persistence_threshold")
      .into<section_of, &zero::stage3_param_persistence_threshold>()
      .means("Stage 3: parameters of at most so many elements stay gathered.");
  row(t, "stage3_model_persistence_threshold", integer, "9223372036854775807")
      .also("model_persistence_threshold")
      .into<section_of, &zero::stage3_model_persistence_threshold>()
      .means("Stage 3: elements that stay gathered in all.");
  row(t, "stage3_max_live_parameters", integer, "1000000000")
      .also("max_live_parameters")
      .into<section_of, &zero::stage3_max_live_parameters>()
      .means("Stage 3: elements gathered at a time; limits prefetch.");
  row(t, "stage3_max_reuse_distance", integer, "1000000000")
      .also("max_reuse_distance")
      .into<section_of, &zero::stage3_max_reuse_distance>()
      .means("Stage 3: keep what is used again within so many elements.");
}

void add_stage_3_gathering(key_rows& t) {
  flag(t, "stage3_gather_16bit_weights_on_model_save", "false")
      .also("gather_16bit_weights_on_model_save")
      .also("stage3_gather_fp16_weights_on_model_save", true)
      .into<section_of, &zero::stage3_gather_16bit_weights_on_model_save>()
      .means("Stage 3: a host program's `save_16bit_model` writes whole weights; false: it writes nothing.");
  t.row("zero_optimization.stage3_module_granularity_threshold", integer)
      .by_default("0")
      .also("module_granularity_threshold")
      .ignored("units are the granularity")
      .means("Modules smaller than this are gathered whole.");
  flag(t, "stage3_use_all_reduce_for_fetch_params", "false")
      .also("use_all_reduce_for_fetch_params")
      .ignored("shards are copied straight into place")
      .means("Gather by all-reduce.");
  flag(t, "stage3_allgather_sequential", "false")
      .also("allgather_sequential")
      .ignored("a gather writes straight into its slot, without a buffer in between")
      .means("One gather per parameter.");
}

void add_groups_and_quantisation(key_rows& t) {
  row(t, "zero_hpz_partition_size", integer, "1")
      .into<section_of, &zero::zero_hpz_partition_size>()
      .means(
          "Stage 3: neighbours that keep a second copy of parameters among them during a step, which all but its first "
          "gather of a unit read; 0, 1: none.");
  flag(t, "zero_quantized_weights", "false")
      .just("false")
      .needs(capability::quantised_communication)
      .means("Gather parameters as int8.");
  flag(t, "zero_quantized_nontrainable_weights", "false")
      .just("false")
      .needs(capability::quantised_communication)
      .means("Keep frozen parameters as int8.");
  flag(t, "zero_quantized_gradients", "false")
      .just("false")
      .needs(capability::quantised_communication)
      .means("Reduce gradients as int4.");
  t.row("zero_optimization.mics_shard_size", integer)
      .by_default("-1")
      .at_least(-1)
      .into<section_of, &zero::mics_shard_size>()
      .means("Stage 3: ranks of one shard group, as parallel.shard; -1, 0: what that says.");
  flag(t, "mics_hierarchical_params_gather", "false")
      .ignored("ranks of a shard group share a process: a gather moves each element once, straight into place")
      .means("Gather over machines first, then within each.");
}

void add_stage_3_behaviour(key_rows& t) {
  flag(t, "memory_efficient_linear", "true")
      .ignored("autograd never keeps gathered parameters here")
      .means("Linear layers that keep no gathered weights.");
  flag(t, "pipeline_loading_checkpoint", "false")
      .into<section_of, &zero::pipeline_loading_checkpoint>()
      .means("Stage 3: ranks load a checkpoint one after the other, to save host memory; false: all at once.");
  flag(t, "override_module_apply", "true").ignored("there are no Python modules").means("Gather around Module.apply.");
  flag(t, "log_trace_cache_warnings", "false")
      .ignored("the order of units is known beforehand")
      .means("Log changes of the order of modules.");
  flag(t, "enable_sanity_checks", "false")
      .ignored("every plan is checked before it runs")
      .means("Check ranks against each other.");
  flag(t, "save_muon_momentum_buffer_in_memory", "false")
      .ignored("Muon's momentum is never on NVMe here")
      .means("Keep Muon's momentum off NVMe.");
}

void add_ignored(key_rows& t) {
  flag(t, "use_multi_rank_bucket_allreduce", "true")
      .ignored("a rank always receives just what it owns")
      .means("Reduce a bucket of several owners at once.");
  flag(t, "allgather_partitions", "true").ignored("no effect in DeepSpeed either").means("Gather updated parameters.");
  flag(t, "compute_grad_norm", "true")
      .ignored("the norm costs next to nothing here and says whether a step overflowed")
      .means("Compute the global gradient norm; false: stages 1 and 2 only.");
  flag(t, "parameter_alignment", "false")
      .ignored("parameters always start at 64-byte boundaries")
      .means("Start each parameter at a multiple of 16 bytes.");
  flag(t, "load_from_fp32_weights", "true")
      .into<section_of, &zero::load_from_fp32_weights>()
      .means("On load take master weights from saved fp32; false: from the 16-bit weights.");
  flag(t, "elastic_checkpoint", "false")
      .ignored("every checkpoint loads at any degree")
      .means("Save states without padding.");
  flag(t, "ignore_unused_parameters", "true")
      .into<section_of, &zero::ignore_unused_parameters>()
      .means(
          "Stages 1, 2: accept parameters of a host's model that get no gradient in a step; false: such a step fails.");
  flag(t, "legacy_stage1", "false")
      .just("false")
      .ignored("DeepSpeed has dropped it")
      .means("The first implementation of stage 1.");
  flag(t, "cpu_offload", "false")
      .or_null()
      .deprecated("offload_optimizer: {device: cpu}")
      .means("Optimizer states on the host.");
  for (const char* name : {"cpu_offload_param", "cpu_offload_params"})
    flag(t, name, "false").or_null().deprecated("offload_param: {device: cpu}").means("Parameters on the host.");
  flag(t, "cpu_offload_use_pin_memory", "false")
      .or_null()
      .deprecated("offload_optimizer: {pin_memory: true}")
      .ignored("DeepSpeed drops it too")
      .means("Lock that memory.");
}

}  // namespace

void add_zero_keys(key_rows& t) {
  t.row("zero_optimization", section)
      .means(
          "ZeRO: which states are cut over the data-parallel ranks. `true` and `false` are old spellings of stages 1 "
          "and 0.");
  add_buckets_and_partition(t);
  add_stage_3_sizes(t);
  add_stage_3_gathering(t);
  add_groups_and_quantisation(t);
  add_stage_3_behaviour(t);
  add_ignored(t);
  t.row("allgather_size", integer)
      .by_default("500000000")
      .at_least(1)
      .deprecated("zero_optimization: {allgather_bucket_size: ...}")
      .means("The allgather_bucket_size that comes with `zero_optimization: true`; read with that only.");
}

}  // namespace troupe::config
