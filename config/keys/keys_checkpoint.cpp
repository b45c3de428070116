// Rows of the key table for `checkpoint` (DeepSpeed's keys and Troupe's additional ones), and for `nebula` and
// `datastates_ckpt`, with which DeepSpeed chooses another writer of checkpoints.
#include <iterator>

#include "config/keys/key_rows.hpp"
#include "core/text.hpp"

namespace troupe::config {

using enum value_type;

namespace {

using job = job_config;
using checkpoints = checkpoint_section;
using loading = checkpoint_load_section;
constexpr auto section_of = &job::checkpoint;

template <auto Field, auto Other>
hand_made policy_field(const char* name, const char* other) {
  static const char* const names[] = {name, other};
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.checkpoint.*Field = v.text == names[1] ? Other : decltype(Other){};
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return names[c.checkpoint.*Field == Other ? 1 : 0]; }};
}

hand_made writers_field() {
  static constexpr const char* names[] = {"none", "REPLICA", "SOCKET", "MACHINE"};
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            for (size_t i = 1; i < std::size(names); ++i)
              if (core::ascii_lower(v.text.front()) == core::ascii_lower(names[i][0]))
                c.checkpoint.writing = static_cast<checkpoints::writers>(i);
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return names[static_cast<size_t>(c.checkpoint.writing)]; }};
}

hand_made tag_validation_field() {
  static constexpr const char* names[] = {"Ignore", "Warn", "Fail"};
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            for (size_t i = 0; i < std::size(names); ++i)
              if (core::ascii_lower(v.text.front()) == core::ascii_lower(names[i][0]))
                c.checkpoint.tag_validation = static_cast<tag_policy>(i);
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return names[static_cast<size_t>(c.checkpoint.tag_validation)]; }};
}

void add_writing_keys(key_rows& t) {
  section_rows key(t, "checkpoint", "When and how checkpoints are written.");
  key("every_steps", integer, "0",
      "Steps between checkpoints in the output folder, and one at the end; a run that finds one there resumes from it. "
      "0: none by steps.")
      .at_least(0)
      .into<section_of, &checkpoints::every_steps>();
  key("every_minutes", number, "0", "Minutes between checkpoints, and one at the end; 0: none by time.")
      .at_least(0)
      .at_most(1e6)
      .into<section_of, &checkpoints::every_minutes>();
  key("keep_last", integer, "0", "The newest checkpoints that stay; 0: all.")
      .at_least(0)
      .at_most(1'000'000)
      .into<section_of, &checkpoints::keep_last>();
  key("keep_every", integer, "0", "Checkpoints of multiples of so many steps stay for good; 0: none do.")
      .at_least(0)
      .into<section_of, &checkpoints::keep_every>();
  key("asynchronous", boolean, "true", "Write while training continues; false: training waits for each checkpoint.")
      .into<section_of, &checkpoints::asynchronous>();
  key("staging_bytes", bytes, "67108864",
      "Memory of each rank that copies for asynchronous checkpoints go through; training waits while it is full. Not "
      "given beside cluster.host_memory_budget: an eighth of a rank's part at most.")
      .at_least(double(staging_bytes_min))
      .at_most(double(uint64_t{1} << 40))
      .into<section_of, &checkpoints::staging_bytes>()
      .tells<section_of, &checkpoints::staging_bytes_given>();
  key("on_error", text, "continue",
      "When a checkpoint cannot be written: continue says so and trains on, stop ends the run; the earlier ones stay.")
      .one_of({"continue", "stop"})
      .by_hand(policy_field<&checkpoints::on_error, checkpoints::error_policy::stop>("continue", "stop"));
  key("retry_for", seconds, "30",
      "How long the end of a run tries again to write its last checkpoint, with either on_error; then the run ends "
      "with code 3 and says which step is safe.")
      .at_least(0)
      .at_most(1e6)
      .into<section_of, &checkpoints::retry_for_s>();
  key("when_busy", text, "wait",
      "When one is due while another is being written: wait writes it right after, of the step that the run has "
      "reached then, and training waits for one that keep_every keeps; skip leaves it out and says so.")
      .one_of({"wait", "skip"})
      .by_hand(policy_field<&checkpoints::when_busy, checkpoints::busy_policy::skip>("wait", "skip"));
  key("exclude_frozen_parameters", boolean, "false", "Leave parameters that are not trained out of checkpoints.")
      .into<section_of, &checkpoints::exclude_frozen_parameters>();
  key("tag", text, "none",
      "Name of a checkpoint's folder instead of step-00000100, as global_step{step}; {step} is the step, without it "
      "each "
      "takes the place of the one before. keep_last and keep_every leave such ones alone.")
      .into<section_of, &checkpoints::tag>();
}

template <auto Field>
key_info& load_row(section_rows& key, const char* name, value_type type, const char* by_default, const char* meaning) {
  return key(name, type, by_default, meaning).into<section_of, &checkpoints::load, Field>();
}

void add_loading_keys(key_rows& t) {
  section_rows key(t, "checkpoint.load",
                   "What a run begins from that has no checkpoint of its own yet, and how that is loaded; without a "
                   "path, and by hand, how the run's own is loaded.");
  load_row<&loading::path>(key, "path", path, "none",
                           "A checkpoint or a folder of them: Troupe's, DeepSpeed's or Hugging Face's.");
  load_row<&loading::tag>(key, "tag", text, "none", "The checkpoint within that folder; none: the newest it names.");
  load_row<&loading::module_only>(key, "module_only", boolean, "false",
                                  "Take the weights alone; the run begins at step 0.");
  load_row<&loading::optimizer_states>(key, "optimizer_states", boolean, "true",
                                       "Take moments and master weights; false: moments begin at zero.");
  load_row<&loading::lr_scheduler_states>(key, "lr_scheduler_states", boolean, "true",
                                          "Go on with the learning rate where it was; false: from its beginning.");
  load_row<&loading::strict>(key, "strict", boolean, "true",
                             "Refuse a checkpoint that lacks parameters of the model or has others.");
  load_row<&loading::fallback_to_previous>(key, "fallback_to_previous", boolean, "false",
                                           "Where the newest is damaged take the newest that is whole, and say so. "
                                           "Holds for the run's own checkpoints too.");
  load_row<&loading::changed_batch>(key, "changed_batch", boolean, "false",
                                    "Resume a run of another train_batch_size, at the sample where it was; for the "
                                    "run's own checkpoints too.");
  load_row<&loading::changed_seed>(key, "changed_seed", boolean, "false",
                                   "Resume a run of another seed, at the sample where it was, in the new seed's "
                                   "order; for the run's own checkpoints too.");
  load_row<&loading::changed_data>(key, "changed_data", boolean, "false",
                                   "Resume a run of other data (text, windows, held-out part, mixture), at the same "
                                   "sample of the data as they are now; for the run's own checkpoints too.");
}

void add_memory_keys(key_rows& t) {
  using memory = checkpoint_memory_section;
  section_rows key(t, "checkpoint.memory", "Checkpoints in the memory of other processes, which a job recovers from.");
  key.itself().switched_by("cluster.processes");
  key("every_steps", integer, "derived",
      "Steps between them, so many at most are done again after a loss, one more where a save on the disk has taken "
      "the place of one; 0: none. By default 1, and 0 with cluster.processes: one.")
      .at_least(0)
      .switched_by("cluster.processes", "0")
      .into<section_of, &checkpoints::memory, &memory::every_steps>();
  key("copies", integer, "2", "Processes in whose memory each of them is kept.")
      .at_least(1)
      .at_most(2)
      .into<section_of, &checkpoints::memory, &memory::copies>();
}

// Adds DeepSpeed's keys of the section, with their effect in Troupe.
void add_deepspeed_checkpoint_keys(key_rows& t) {
  const auto key = [&t](const char* name, value_type type, const char* by_default, const char* meaning) -> key_info& {
    return t.row(std::string("checkpoint.") + name, type).by_default(by_default).means(meaning);
  };
  key("tag_validation", text, "Warn",
      "Of several processes whose programs name the checkpoint that is saved: where they differ, Warn says so, Fail "
      "refuses the save, Ignore does not ask.")
      .one_of({"Ignore", "Warn", "Fail"})
      .in_any_case()
      .switched_by("cluster.processes")
      .by_hand(tag_validation_field());
  key("load_universal", boolean, "false", "Load the converted layout.")
      .ignored("every checkpoint is universal, and DeepSpeed's converted layout is recognised");
  key("use_node_local_storage", boolean, "false",
      "With cluster.hosts: every machine writes its ranks' files to a disk of its own, and reads others' from there.")
      .into<section_of, &checkpoints::use_node_local_storage>();
  key("checkpoint_serialization", boolean, "true", "Tensor files as zip containers; false: the older stream.")
      .ignored("a checkpoint has one format");
  section_rows parallel(t, "checkpoint.parallel_write", "Which ranks write.");
  parallel("pipeline_stage", boolean, "false", "All ranks of a stage share the writing of its layers.")
      .ignored("all ranks always share the writing");
  section_rows writer(t, "checkpoint.writer", "DeepSpeed's fast writer.");
  writer("type", text, "FAST", "Which writer.")
      .one_of({"MOCK", "PYTHON", "FAST"})
      .in_any_case()
      .ignored("there is one writer, and it is fast");
  writer("decoupled", boolean, "false", "Train on while writing.").ignored("checkpoint.asynchronous sets it");
  writer("io_buffer_size", bytes, "67108864", "Bytes of a write buffer.")
      .at_least(1)
      .ignored("checkpoint.staging_bytes sets it");
  writer("io_buffer_double", boolean, "true", "Fill one buffer while another is written.")
      .ignored("buffers are filled and written at the same time");
  writer("show_statistics", boolean, "false", "Log what was written.")
      .ignored("it is always logged at the end of a run");
  writer("data_parallel", text, "none",
         "Which of the ranks that hold the same elements write them: REPLICA, as without the key, every one a part, "
         "SOCKET one on each of two sockets of a machine, MACHINE one on each machine. inspect says which rank has "
         "written what.")
      .one_of({"REPLICA", "SOCKET", "MACHINE"})
      .in_any_case()
      .by_hand(writers_field());
  writer("io_multiplier", integer, "1", "Writers of one rank.").at_least(1).ignored("a rank writes one file");
}

}  // namespace

void add_checkpoint_keys(key_rows& t) {
  add_writing_keys(t);
  add_deepspeed_checkpoint_keys(t);
  add_loading_keys(t);
  add_memory_keys(t);
  section_rows nebula(t, "nebula", "Asynchronous checkpoints of Azure; DeepSpeed has dropped them.");
  const auto beside = "checkpoint.asynchronous sets it; they go to the folder of the run";
  nebula("enabled", boolean, "false", "Use it.").ignored(beside);
  nebula("persistent_storage_path", path, "none", "Where checkpoints end up.").ignored(beside);
  nebula("persistent_time_interval", integer, "100", "Seconds between those.").at_least(0).ignored(beside);
  nebula("num_of_version_in_retention", integer, "2", "Checkpoints that stay.")
      .at_least(0)
      .ignored("checkpoint.keep_last sets it");
  nebula("enable_nebula_load", boolean, "true", "Load through it.").ignored(beside);
  nebula("load_path", path, "none", "Where to load from.").ignored(beside);
  section_rows states(t, "datastates_ckpt", "Asynchronous checkpoints of DataStates.");
  states.itself().where_it_stands().ignored(beside);
  states("enabled", boolean, "true", "Use it, where the section is given.").ignored(beside);
  states("host_cache_size", integer, "none", "GB of host memory for copies.").at_least(0).ignored(beside);
  states("parser_threads", integer, "none", "Threads that parse.").at_least(0).ignored(beside);
  states("pin_host_cache", boolean, "true", "Lock that memory.").ignored(beside);
}

}  // namespace troupe::config
