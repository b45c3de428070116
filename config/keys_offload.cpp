// Where states live that do not fit: the offload sections of `zero_optimization`, its other sections, and `aio`.
#include "config/capabilities.hpp"
#include "config/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;

void add_offload(key_rows& t) {
  section_rows param(t, "zero_optimization.offload_param", "Stage 3: where parameter shards live.",
                     capability::offload);
  section_rows optimizer(t, "zero_optimization.offload_optimizer", "Where optimizer states live.", capability::offload);
  for (section_rows* part : {&param, &optimizer}) {
    auto& key = *part;
    key("device", text, "none", "The memory they live in.").one_of({"none", "cpu", "nvme"}).just("none");
    key("nvme_path", path, "none", "The folder for device nvme.");
    key("buffer_count", integer, part == &param ? "5" : "4", "Swap buffers.").at_least(0);
    key("pin_memory", boolean, "true", "Lock the host memory used.");
  }
  param("buffer_size", integer, "100000000", "Elements of a swap buffer; every shard must fit.").at_least(0);
  param("max_in_cpu", integer, "1000000000", "Elements kept in host memory when the device is nvme.").at_least(0);
  optimizer("pipeline_read", boolean, "false", "Read the next sub-group while one is updated.");
  optimizer("pipeline_write", boolean, "false", "Write the last sub-group while one is updated.");
  optimizer("pipeline", boolean, "false", "DeepSpeed derives it from the two before.")
      .ignored("derived from pipeline_read and pipeline_write");
  optimizer("fast_init", boolean, "false", "Derive master weights from parameter files.");
  optimizer("ratio", number, "1.0", "Stage 3: the share of sub-groups on the host.").at_least(0).at_most(1);
  optimizer("super_offload", boolean, "false", "Stage 3: speculative steps on the host.");
  optimizer("cpuadam_cores_perc", number, "0.8", "Cores for the optimizer with super_offload.").at_least(0).at_most(1);
}

void add_zenflow(key_rows& t) {
  section_rows key(t, "zero_optimization.zenflow",
                   "Update important gradients at once, the others later and elsewhere.", capability::offload);
  key("topk_ratio", number, "0.1", "The share of gradient columns that counts as important.").above(0).below(1);
  key("select_strategy", text, "auto", "When to select anew: by step or by epoch.").one_of({"step", "epoch"});
  key("select_interval", integer, "auto", "Steps or epochs between selections.").at_least(1);
  key("update_interval", integer, "auto", "Steps between updates of the others.").at_least(1);
  key("overlap_step", boolean, "false", "Update on the host while computing.");
  key("offload", boolean, "false", "Keep the states of selected gradients on the host.");
  key("auto_ratio", number, "0.99", "What `auto` of update_interval aims at.").at_least(0).at_most(1);
  key("full_warm_up_rounds", integer, "0", "First steps that update everything.").at_least(0);
  key("pt_reserved_cores_perc", number, "0.5", "Cores kept for everything else.").at_least(0).at_most(1);
  key("steps_per_epoch", integer, "none", "Set by DeepSpeed itself.")
      .at_least(1)
      .ignored("the length of an epoch is known here");
}

}  // namespace

void add_offload_keys(key_rows& t) {
  add_offload(t);
  add_zenflow(t);
  section_rows loco(t, "zero_optimization.zeropp_loco_param", "Error feedback of quantised gradients.",
                    capability::quantised_communication);
  loco("err_beta", number, "0.8", "The share of the last error that is kept.").at_least(0).at_most(1);
  loco("reset_T", integer, "1024", "Steps after which errors are forgotten.").at_least(1);
  section_rows leaf(t, "zero_optimization.leaf_module", "Modules gathered whole.");
  for (const char* name : {"classes", "names", "name_suffixes"})
    leaf(name, texts, "[]", "Which modules.").ignored("units are the granularity");

  section_rows aio(t, "aio", "DeepSpeed's asynchronous file access.", capability::file_access);
  aio("block_size", integer, "1048576", "Bytes of one request.").at_least(1);
  aio("queue_depth", integer, "8", "Requests in flight.").at_least(1);
  aio("intra_op_parallelism", integer, "1", "Requests that one read or write is cut into.").at_least(1);
  aio("thread_count", integer, "1", "The older name of intra_op_parallelism.")
      .at_least(1)
      .deprecated("intra_op_parallelism")
      .ignored("DeepSpeed reads intra_op_parallelism instead");
  aio("single_submit", boolean, "false", "Submit requests one by one.");
  aio("overlap_events", boolean, "true", "Submit while others complete.");
  aio("use_gds", boolean, "false", "Files straight to and from the GPU.");
}

}  // namespace troupe::config
