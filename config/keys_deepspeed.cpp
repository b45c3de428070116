// DeepSpeed's other keys, known so that they are never taken for mistakes: each says what it has no effect on, and
// those that would change results are refused rather than ignored.
#include "config/key_table.hpp"

namespace troupe::config {
namespace {

using enum value_type;

void add_flat_sections(key_rows& t) {
  const auto key = [&](const char* name, value_type type, const char* by_default) -> key_info& {
    return t.row(name, type).by_default(by_default).ignored();
  };
  t.row("aio", section).means("DeepSpeed's asynchronous file access.");
  key("aio.block_size", integer, "1048576").at_least(1).means("Bytes of one request.");
  key("aio.queue_depth", integer, "8").at_least(1).means("Requests in flight.");
  key("aio.intra_op_parallelism", integer, "1").at_least(1).means("Threads of one request.");
  key("aio.thread_count", integer, "1").at_least(1).deprecated("intra_op_parallelism").means("Threads of one request.");
  key("aio.single_submit", boolean, "false").means("Submit requests one by one.");
  key("aio.overlap_events", boolean, "true").means("Submit while others complete.");
  key("aio.use_gds", boolean, "false").means("Files straight to and from the GPU.");

  for (const char* monitor : {"tensorboard", "csv_monitor"}) {
    const std::string name = monitor;
    t.row(name, section).means("Curves written by DeepSpeed's monitor.");
    t.row(name + ".enabled", boolean).by_default("false").ignored().means("Write them.");
    t.row(name + ".output_path", text).by_default("\"\"").ignored().means("The folder.");
    t.row(name + ".job_name", text).by_default("DeepSpeedJobName").ignored().means("The folder's name within it.");
  }
  t.row("flops_profiler", section).means("Counts the model's operations.");
  key("flops_profiler.enabled", boolean, "false").means("Count them.");
  key("flops_profiler.recompute_fwd_factor", number, "0.0").at_least(0).means("Forwards recomputed in backward.");
  key("flops_profiler.profile_step", integer, "1").at_least(0).means("The step that is counted.");
  key("flops_profiler.module_depth", integer, "-1").at_least(-1).means("Levels shown.");
  key("flops_profiler.top_modules", integer, "1").at_least(0).means("Modules shown.");
  key("flops_profiler.detailed", boolean, "true").means("Show every module.");
  key("flops_profiler.output_file", path, "none").means("Where to write.");
  t.row("comms_logger", section).means("Logs every collective.");
  key("comms_logger.enabled", boolean, "false").means("Log them.");
  key("comms_logger.verbose", boolean, "false").means("Each at once.");
  key("comms_logger.prof_all", boolean, "true").means("All operations.");
  key("comms_logger.debug", boolean, "false").means("With the caller's name.");
  key("comms_logger.prof_ops", any, "none").means("Only these operations.");
}

}  // namespace

void add_deepspeed_keys(key_rows& t) {
  const auto key = [&](const char* name, value_type type, const char* by_default) -> key_info& {
    return t.row(name, type).by_default(by_default).ignored();
  };
  key("wall_clock_breakdown", boolean, "false").means("Log the time of each part of a step.");
  key("memory_breakdown", boolean, "false").means("Log memory at each part of a step.");
  key("dump_state", boolean, "false").means("Log the engine's state at the start.");
  key("zero_allow_untested_optimizer", boolean, "false")
      .ignored("every optimizer here works with every stage")
      .means("Accept any optimizer with ZeRO.");
  key("zero_force_ds_cpu_optimizer", boolean, "true")
      .ignored("every optimizer here runs on the CPU")
      .means("Insist on the CPU optimizer with offload.");
  key("sparse_gradients", boolean, "false").means("Send embedding gradients as indices and values.");
  key("disable_allgather", boolean, "false").ignored("no effect in DeepSpeed either").means("Gather by broadcasts.");
  key("dataloader_drop_last", boolean, "false")
      .ignored("every global batch is whole")
      .means("Drop the last partial batch.");
  key("vocabulary_size", integer, "none")
      .at_least(1)
      .ignored("the model says it")
      .means("Warn unless a multiple of 8.");
  key("fp32_allreduce", boolean, "false")
      .deprecated("communication_data_type: fp32")
      .just("false")
      .means("Exchange gradients in fp32.");
  key("disable_compile", boolean, "false")
      .ignored("nothing is compiled at run time")
      .means("Leave the model as it is.");
  add_flat_sections(t);

  const auto changes_results = [&](const char* name, const char* meaning) {
    key(name, object, "none").not_enabled().means(meaning);
  };
  changes_results("amp", "NVIDIA Apex mixed precision.");
  changes_results("torch_autocast", "Mixed precision chosen per operation.");
  changes_results("progressive_layer_drop", "Skip layers at random.");
  changes_results("curriculum_learning", "Easy samples first (older form).");
  changes_results("data_efficiency", "Easy samples first, random token dropping.");
  changes_results("compression_training", "Quantisation, pruning, layer reduction.");
  changes_results("elasticity", "Batch sizes that suit many rank counts.");
  changes_results("sequence_parallel", "Sequence parallelism by configuration.");
  for (const auto& [name, meaning] : std::initializer_list<std::pair<const char*, const char*>>{
           {"compile", "Graph compilation."},
           {"pipeline", "Options of the pipeline engine."},
           {"tensor_parallel", "Options of tensor parallelism."},
           {"checkpoint", "How checkpoints are written."},
           {"nebula", "Asynchronous checkpoints of Azure."},
           {"datastates_ckpt", "Asynchronous checkpoints of DataStates."},
           {"autotuning", "Search for a faster configuration."},
           {"wandb", "Curves sent to Weights & Biases."},
           {"comet", "Curves sent to Comet."},
           {"eigenvalue", "Eigenvalues for quantisation."},
           {"sparse_attention", "Block-sparse attention for models that ask for it."},
           {"hybrid_engine", "Training and generation in turn."},
           {"timers", "Throughput timers."},
           {"weight_quantization", "Quantised weights at inference."}})
    key(name, object, "none").means(meaning);
}

}  // namespace troupe::config
