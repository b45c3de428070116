// `checkpoint`: DeepSpeed's keys and Troupe's own beside them; and the two sections that choose another writer there.
#include "config/capabilities.hpp"
#include "config/key_rows.hpp"

namespace troupe::config {

using enum value_type;

void add_checkpoint_keys(key_rows& t) {
  section_rows key(t, "checkpoint", "When and how checkpoints are written.", capability::checkpoints);
  t.row("checkpoint.every_steps", integer)
      .by_default("0")
      .at_least(0)
      .into<&job_config::checkpoint, &checkpoint_section::every_steps>()
      .means(
          "Steps between checkpoints in the output folder, and one at the end; a run that finds one there goes on from "
          "it. 0: none.");
  key("every_minutes", number, "0", "Minutes between checkpoints; 0: none by time.").at_least(0);
  t.row("checkpoint.keep_last", integer)
      .by_default("0")
      .at_least(0)
      .at_most(1'000'000)
      .into<&job_config::checkpoint, &checkpoint_section::keep_last>()
      .means("The newest checkpoints that stay; 0: all.");
  t.row("checkpoint.keep_every", integer)
      .by_default("0")
      .at_least(0)
      .into<&job_config::checkpoint, &checkpoint_section::keep_every>()
      .means("Checkpoints of multiples of so many steps stay for good; 0: none do.");
  key("on_error", boolean, "true", "Write one when a run ends with an error, as far as its states are whole.");
  key("tag_validation", text, "Warn", "What to do when ranks name different tags.")
      .one_of({"Ignore", "Warn", "Fail"})
      .in_any_case()
      .ignored("one place names a checkpoint for all ranks");
  key("load_universal", boolean, "false", "Load the converted layout.")
      .ignored("every checkpoint is universal, and DeepSpeed's converted layout is recognised");
  key("use_node_local_storage", boolean, "false", "Every machine writes to a disk of its own.");
  key("checkpoint_serialization", boolean, "true", "Tensor files as zip containers; false: the older stream.")
      .ignored("a checkpoint has one format");
  section_rows parallel(t, "checkpoint.parallel_write", "Which ranks write.", capability::checkpoints);
  parallel("pipeline_stage", boolean, "false", "All ranks of a stage share the writing of its layers.")
      .ignored("all ranks always share the writing");
  section_rows writer(t, "checkpoint.writer", "DeepSpeed's fast writer.", capability::checkpoints);
  writer("type", text, "FAST", "Which writer.")
      .one_of({"MOCK", "PYTHON", "FAST"})
      .in_any_case()
      .ignored("there is one writer, and it is fast");
  writer("decoupled", boolean, "false", "Train on while writing.").ignored("writing is always beside training");
  writer("io_buffer_size", bytes, "67108864", "Bytes of a write buffer.").at_least(1);
  writer("io_buffer_double", boolean, "true", "Fill one buffer while another is written.")
      .ignored("buffers are filled and written at the same time");
  writer("show_statistics", boolean, "false", "Log what was written.").ignored("the end report says it");
  writer("data_parallel", text, "none", "What writes a part of its own.")
      .one_of({"REPLICA", "SOCKET", "MACHINE"})
      .in_any_case()
      .ignored("all ranks always share the writing");
  writer("io_multiplier", integer, "1", "Writers of one rank.").at_least(1);

  section_rows nebula(t, "nebula", "Asynchronous checkpoints of Azure; DeepSpeed has dropped them.");
  const auto beside = "writing is always beside training, to the folder of the run";
  nebula("enabled", boolean, "false", "Use it.").ignored(beside);
  nebula("persistent_storage_path", path, "none", "Where checkpoints end up.").ignored(beside);
  nebula("persistent_time_interval", integer, "100", "Seconds between those.").at_least(0).ignored(beside);
  nebula("num_of_version_in_retention", integer, "2", "Checkpoints that stay.")
      .at_least(0)
      .ignored("checkpoint.keep_last says it");
  nebula("enable_nebula_load", boolean, "true", "Load through it.").ignored(beside);
  nebula("load_path", path, "none", "Where to load from.").ignored(beside);
  section_rows states(t, "datastates_ckpt", "Asynchronous checkpoints of DataStates.");
  states("enabled", boolean, "true", "Use it, where the section is given.").ignored(beside);
  states("host_cache_size", integer, "none", "GB of host memory for copies.").at_least(0).ignored(beside);
  states("parser_threads", integer, "none", "Threads that parse.").at_least(0).ignored(beside);
  states("pin_host_cache", boolean, "true", "Lock that memory.").ignored(beside);
}

}  // namespace troupe::config
