// Rows of the key table for the section `pipeline`, which has both Troupe's own keys and DeepSpeed's.
#include <fmt/format.h>

#include <algorithm>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using pipeline = pipeline_section;

// Returns the accessors of a schedule's name; parallel_rules.cpp resolves a file's path relative to the folder of the
// file that names it.
hand_made schedule_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.pipeline.schedule = v.text;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            const auto& p = c.pipeline;
            if (!p.schedule_file.empty()) return quoted(p.schedule_file.string());
            return p.schedule == pipeline().schedule ? p.schedule : quoted(p.schedule);
          }};
}

/// Values of the key `pipeline.partition`; in addition, `type:` followed by a pattern is accepted.
constexpr std::string_view partitions[] = {"best", "uniform", "parameters"};
constexpr std::string_view pattern_prefix = "type:";

std::optional<std::string> set_partition(job& c, const node& v) {
  auto& p = c.pipeline;
  p.first_units.clear();
  if (v.kind == node_kind::sequence) {
    p.partition.clear();
    for (const node_ptr& one : v.items) {
      const auto n = integer_in(*one);
      if (n->magnitude > UINT32_MAX) return "first units that a model may have";
      p.first_units.push_back(static_cast<uint32_t>(n->magnitude));
    }
    if (p.first_units.empty()) return "a first unit for each stage";
    return std::nullopt;
  }
  const std::string name = core::lowered(v.text);
  const bool by_pattern = name.starts_with(pattern_prefix);
  if (!by_pattern && std::ranges::find(partitions, name) == std::end(partitions))
    return "best, uniform, parameters, type:REGEX or a list of the stages' first units";
  p.partition = by_pattern ? std::string(pattern_prefix) + v.text.substr(pattern_prefix.size()) : name;
  return std::nullopt;
}

hand_made stage_partition_field() {
  return {set_partition, [](const job& c) -> std::string {
            const auto& p = c.pipeline;
            if (p.first_units.empty()) return p.partition == pipeline().partition ? p.partition : quoted(p.partition);
            std::string out;
            for (const uint32_t u : p.first_units) out += fmt::format("{}{}", out.empty() ? "" : ", ", u);
            return "[" + out + "]";
          }};
}

hand_made profile_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.pipeline.profile = v.text == "always"  ? profile_choice::always
                                 : v.text == "never" ? profile_choice::never
                                                     : profile_choice::automatic;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            return c.pipeline.profile == profile_choice::always  ? "always"
                   : c.pipeline.profile == profile_choice::never ? "never"
                                                                 : "automatic";
          }};
}

}  // namespace

void add_pipeline_keys(key_rows& t) {
  section_rows key(t, "pipeline", "How the ranks of parallel.pipeline share a model and take turns.");
  key("schedule", text, "1f1b",
      "What each rank does in which order: a name (`troupe schedule` lists them), `search`, or a file ending in .csv "
      "in "
      "PyTorch's notation.")
      .by_hand(schedule_field());
  key("chunks", integer, "0", "Stages of each rank; 0: as many as the schedule wants, else 1.")
      .at_least(0)
      .at_most(4096)
      .into<&job::pipeline, &pipeline::chunks>();
  key("partition", text_or_integers, "best",
      "Which units make a stage: `best` (the slowest stage is fastest, by modelled time), `uniform` (as many units), "
      "`parameters` (as many trainable elements), `type:REGEX` (as many units whose name, or that of a layer in them, "
      "matches), or the first unit of each stage, such as [0, 3, 6].")
      .at_least(0)
      .by_hand(stage_partition_field());
  key("any_order", boolean, "false",
      "Allow a schedule that leaves the order of micro-batches within a stage: gradients are added in another order, "
      "so bits differ from those of other schedules.")
      .into<&job::pipeline, &pipeline::any_order>();
  key("memory_limit", bytes, "0", "Activations that a schedule may keep on a rank; 0: no limit.")
      .at_least(0)
      .into<&job::pipeline, &pipeline::memory_limit>();
  key("in_flight_limit", integer, "0",
      "The same in micro-batches: on a rank at most so many times the activations that one micro-batch leaves there; "
      "0: "
      "no limit.")
      .at_least(0)
      .at_most(1U << 22U)
      .into<&job::pipeline, &pipeline::in_flight_limit>();
  key("profile", text, "automatic",
      "When a run leaves the measured times of its units in its folder (profile.csv), which `partition: best` and "
      "`schedule: search` go by instead of modelled ones: at the end of a pipeline's run where the folder has none of "
      "the same model, micro-batch and type; always, without a pipeline too; never, nor is one read.")
      .one_of({"automatic", "always", "never"})
      .by_hand(profile_field());
  key("stages", integer, "auto", "DeepSpeed reads it and does nothing.")
      .at_least(1)
      .ignored("parallel.pipeline sets it");
  key("seed_layers", boolean, "false", "A seed for each layer.").ignored("initial weights never depend on the cut");
  key("activation_checkpoint_interval", integer, "0",
      "Above 0: every unit is recomputed from its input, as activation_checkpointing.enabled says; which units would "
      "share an input does not matter here.")
      .at_least(0)
      .into<&job::pipeline, &pipeline::checkpoint_interval>();
  const auto partitioned = [&](const char* name, const char* meaning) {
    key(name, boolean, "true", meaning).ignored("parallel.sharded_norms sets it");
  };
  partitioned("pipe_partitioned", "Cut what is sent over the tensor-parallel ranks.");
  partitioned("grad_partitioned", "The same for gradients.");
  key("use_reentrant", boolean, "true", "How autograd recomputes.").ignored("there is one way to recompute here");
}

}  // namespace troupe::config
