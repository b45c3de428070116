// DeepSpeed's `zero_optimization` section, every field of it, and the sections for offload.
#include "config/key_table.hpp"

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

void add_acting(key_rows& t) {
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
      .at_least(1)
      .into<section_of, &zero::reduce_bucket_size>()
      .means("Elements of a gradient bucket.");
  row(t, "allgather_bucket_size", integer, "500000000")
      .at_least(1)
      .into<section_of, &zero::allgather_bucket_size>()
      .means("Stages 1, 2: elements of one gather of updated parameters.");
  row(t, "overlap_comm", boolean, "stage == 3")
      .into<section_of, &zero::overlap_comm>()
      .means("Reduce and gather while computing; false: backward waits for each bucket, and nothing is prefetched.");
  row(t, "round_robin_gradients", boolean, "false")
      .into<section_of, &zero::round_robin_gradients>()
      .means("Blocks that do not divide evenly go to the ranks in turn; false: to those that own least so far.");
  row(t, "sub_group_size", integer, "1000000000")
      .at_least(1)
      .into<section_of, &zero::sub_group_size>()
      .means("Elements of a rank's partition that one update instruction works on; closes with the parameter that reaches it.");
  row(t, "stage3_prefetch_bucket_size", integer, "50000000")
      .also("prefetch_bucket_size")
      .into<section_of, &zero::stage3_prefetch_bucket_size>()
      .means("Stage 3: elements gathered ahead of use; 0: none.");
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

void add_offload(key_rows& t) {
  for (const char* part : {"offload_param", "offload_optimizer"}) {
    const bool is_param = std::string_view(part) == "offload_param";
    const auto key = [&](const char* name, value_type type, const char* by_default) -> key_info& {
      return row(t, (std::string(part) + "." + name).c_str(), type, by_default)
          .ignored("nothing is offloaded in this version");
    };
    row(t, part, section, "none")
        .means(is_param ? "Stage 3: where parameter shards live." : "Where optimizer states live.");
    key("device", text, "none").one_of({"none", "cpu", "nvme"}).just("none").means("The memory they live in.");
    key("nvme_path", path, "none").means("The folder for device nvme.");
    key("buffer_count", integer, is_param ? "5" : "4").means("Swap buffers.");
    key("pin_memory", boolean, "true").means("Lock the host memory used.");
    if (is_param) {
      key("buffer_size", integer, "100000000").means("Elements of a swap buffer.");
      key("max_in_cpu", integer, "1000000000").means("Elements kept in host memory when the device is nvme.");
      continue;
    }
    key("pipeline_read", boolean, "false").means("Read the next sub-group while one is updated.");
    key("pipeline_write", boolean, "false").means("Write the last sub-group while one is updated.");
    key("pipeline", boolean, "false").means("Derived by DeepSpeed from the two before.");
    key("fast_init", boolean, "false").means("Derive master weights from parameter files.");
    key("ratio", number, "1.0").at_least(0).at_most(1).means("The share of sub-groups on the host.");
    key("super_offload", boolean, "false").means("Speculative steps on the host.");
    key("cpuadam_cores_perc", number, "0.8")
        .at_least(0)
        .at_most(1)
        .means("Cores for the optimizer with super_offload.");
  }
}

void add_ignored(key_rows& t) {
  const auto flag = [&](const char* name, const char* by_default) -> key_info& {
    return row(t, name, boolean, by_default).ignored();
  };
  flag("use_multi_rank_bucket_allreduce", "true")
      .ignored("a rank always receives just what it owns")
      .means("Reduce a bucket of several owners at once.");
  flag("allgather_partitions", "true").ignored("no effect in DeepSpeed either").means("Gather updated parameters.");
  flag("load_from_fp32_weights", "true").means("On load take master weights from saved fp32.");
  flag("elastic_checkpoint", "false").means("Save states without padding.");
  row(t, "zenflow", object, "none").ignored().means("Update important gradients first.");
  flag("stage3_gather_16bit_weights_on_model_save", "false")
      .also("gather_16bit_weights_on_model_save")
      .also("stage3_gather_fp16_weights_on_model_save", true)
      .means("Save whole 16-bit weights at stage 3.");
  row(t, "stage3_module_granularity_threshold", integer, "0")
      .also("module_granularity_threshold")
      .ignored("units are the granularity")
      .means("Modules smaller than this are gathered whole.");
  flag("stage3_use_all_reduce_for_fetch_params", "false")
      .also("use_all_reduce_for_fetch_params")
      .means("Gather by all-reduce.");
  flag("stage3_allgather_sequential", "false").also("allgather_sequential").means("One gather per parameter.");
  flag("ignore_unused_parameters", "true")
      .ignored("every parameter has a gradient")
      .means("Accept parameters without gradient.");
  flag("legacy_stage1", "false").just("false").means("The first implementation of stage 1.");
  row(t, "zero_hpz_partition_size", integer, "1")
      .at_least(1)
      .ignored()
      .means("Ranks of a second, nearer copy of parameters.");
  flag("zero_quantized_weights", "false").just("false").means("Gather parameters as int8.");
  flag("zero_quantized_nontrainable_weights", "false").just("false").means("Keep frozen parameters as int8.");
  flag("zero_quantized_gradients", "false").just("false").means("Reduce gradients as int4.");
  row(t, "zeropp_loco_param", object, "none")
      .ignored("gradients are not quantised")
      .means("Error feedback of quantised gradients.");
  t.row("zero_optimization.mics_shard_size", integer)
      .by_default("-1")
      .at_least(-1)
      .ignored()
      .means("Ranks of one shard group.");
  flag("mics_hierarchical_params_gather", "false").means("Gather within a machine first.");
  flag("memory_efficient_linear", "true")
      .ignored("autograd never keeps gathered parameters here")
      .means("Linear layers that keep no gathered weights.");
  flag("pipeline_loading_checkpoint", "false").means("Load sub-group by sub-group.");
  flag("override_module_apply", "true").ignored("there are no Python modules").means("Gather around Module.apply.");
  flag("log_trace_cache_warnings", "false")
      .ignored("the order of units is known beforehand")
      .means("Log changes of the order of modules.");
  flag("enable_sanity_checks", "false")
      .ignored("every plan is checked before it runs")
      .means("Check ranks against each other.");
  flag("save_muon_momentum_buffer_in_memory", "false").means("Keep Muon's momentum off NVMe.");
  row(t, "leaf_module", object, "none").ignored("units are the granularity").means("Modules gathered whole.");
  flag("cpu_offload", "false")
      .deprecated("offload_optimizer: {device: cpu}")
      .just("false")
      .means("Optimizer states on the host.");
  flag("cpu_offload_param", "false")
      .deprecated("offload_param: {device: cpu}")
      .just("false")
      .means("Parameters on the host.");
  flag("cpu_offload_use_pin_memory", "false")
      .deprecated("offload_optimizer: {pin_memory: true}")
      .means("Lock that memory.");
  flag("cpu_offload_params", "false")
      .deprecated("offload_param: {device: cpu}")
      .just("false")
      .means("Parameters on the host.");
}

}  // namespace

void add_zero_keys(key_rows& t) {
  t.row("zero_optimization", section)
      .means(
          "ZeRO: which states are cut over the data-parallel ranks. `true` and `false` are old spellings of stages 1 "
          "and 0.");
  add_acting(t);
  add_ignored(t);
  add_offload(t);
  t.row("allgather_size", integer)
      .by_default("500000000")
      .at_least(1)
      .deprecated("zero_optimization: {allgather_bucket_size: ...}")
      .means("The allgather_bucket_size that comes with `zero_optimization: true`; read with that only.");
}

}  // namespace troupe::config
