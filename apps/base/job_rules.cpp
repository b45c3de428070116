#include "apps/base/job_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "config/sections/parameter_groups.hpp"
#include "core/system_error.hpp"
#include "formats/names/wrapper_names.hpp"
#include "job/blueprint.hpp"
#include "job/model/adapters.hpp"
#include "job/model/configured_model.hpp"
#include "job/model/folder_model.hpp"
#include "job/model/masked_tokens.hpp"
#include "job/step/step_options.hpp"
#include "models/table/row_tiles.hpp"
#include "plan/choose/batch_need.hpp"
#include "plan/schedule/named.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::apps {
namespace {

using config::key_problem;

/// Limit of the predicted memory of a job's batches (1 PiB): no machine has more memory.
constexpr uint64_t no_machine_has_bytes = uint64_t{1} << 50;

/// Returns the problem's text without the key, which key_problem names separately: "model key 'n_head': wanted 1"
/// becomes "wanted 1".
std::string without_key(const models::spec_problem& p) {
  const std::string begin = fmt::format("model key '{}': wanted ", p.key);
  return p.what.text.starts_with(begin) ? std::string("wanted ").append(p.what.text, begin.size()) : p.what.text;
}

std::optional<models::model_spec> model_of(const config::model_section& m, std::vector<key_problem>& out) {
  if (const auto adapter = formats::unused_adapter_in(m.teacher))
    out.push_back({"model.teacher", fmt::format("'{}' holds {}", m.teacher.string(), *adapter), true});
  if (!m.path.empty()) {
    auto spec = job::read_folder_model(m.path, m.ignore_keys);
    if (spec && !spec->remark.empty()) out.push_back({"model.path", spec->remark, true});
    if (spec) return std::move(*spec);
    out.push_back({"model.path", spec.error().text});
    return std::nullopt;
  }
  const auto problems = models::problems_of(m.hugging_face_json);
  for (const auto& p : problems) out.push_back({p.key.empty() ? "model" : "model." + p.key, without_key(p)});
  if (!problems.empty()) return std::nullopt;
  return *models::parse_model_spec(m.hugging_face_json);
}

/// Returns what is wrong with the section `pipeline` for this model. Returns nothing if all is right, or if no machine
/// could hold the batches (no_machine_has_bytes), so that the pipeline need not be computed.
std::optional<key_problem> pipeline_problem_of(const config::job_config& job, const models::model_spec& spec,
                                               const plan::batch_request& batches) {
  const auto& p = job.pipeline;
  if (!p.cuts(job.parallel.pipeline)) {
    if (!p.schedule_file.empty() || p.schedule == "search") return std::nullopt;
    const auto named = plan::find_schedule(p.schedule);
    if (named) return std::nullopt;
    return key_problem{"pipeline.schedule", named.error().text + ", search, or a file ending in .csv"};
  }
  const auto table_of = [&](uint64_t rows) {
    return models::make_model_table(spec, rows, batches.columns, core::size_of(job.parameter_dtype()));
  };
  if (plan::need_of(table_of(1), batches).total() > double(no_machine_has_bytes)) return std::nullopt;
  auto found = job::find_pipeline_problem(job, table_of(batches.rows), job::options_from(job, plan::mode::train));
  if (!found) return std::nullopt;
  return key_problem{std::move(found->key), std::move(found->what.text)};
}

/// Adds a warning for each group without effect, because earlier groups match all parameters that it matches.
void add_shadowed_groups(const config::job_config& job, const models::model_spec& spec, std::vector<key_problem>& out) {
  if (job.parameter_groups.size() < 2) return;
  const auto table = models::make_model_table(spec, 1, 1, core::size_of(job.parameter_dtype()));
  std::vector<std::string> names;
  for (const auto& p : table.parameters)
    if (!p.is_copy() && !p.of_teacher) names.push_back(p.name);
  for (const auto& one : config::shadowed_groups(job.parameter_groups, names))
    out.push_back(
        {fmt::format("parameter_groups[{}].match", one.group),
         fmt::format("no effect: the {} parameter{} that it matches, such as {}, belong to earlier groups, the "
                     "first to parameter_groups[{}]; put this group before them",
                     one.names, one.names == 1 ? "" : "s", one.first, one.by),
         true});
}

/// Adds what is wrong with the keys of the logits, and of masked tokens and samples, which depend on whether the model
/// is an encoder.
void add_objective_problems(const config::job_config& job, const models::model_spec& spec, intent why,
                            std::vector<key_problem>& out) {
  if (auto problem = job::soft_cap_problem(job, spec)) out.push_back({job::soft_cap_key, std::move(*problem)});
  if (auto found = job::masking_problem(job, spec)) out.push_back({std::move(found->key), std::move(found->text)});
  if (!spec.family->is_encoder) return;
  for (const auto& source : job.data.sources)
    if (source.form != "text") {
      out.push_back({"data", fmt::format("wanted texts for a {} model, which finds masked tokens, got a source of the "
                                         "form {}",
                                         spec.family->model_type, source.form)});
      break;
    }
  for (const auto& set : job.data.validation)
    if (set.form != "text")
      out.push_back({"data.validation", fmt::format("wanted texts for a {} model, which finds masked tokens, got the "
                                                    "set {} of the form {}",
                                                    spec.family->model_type, set.name, set.form)});
  const auto& given = job.data.masking.mask_token_id;
  std::optional<uint64_t> token = spec.mask_token;
  if (given) token = given;
  // a tokenizer's mask token is not checked: the run reads it
  if (why != intent::plan && (given || job.data.tokenizer_path.empty()))
    if (auto problem = job::mask_token_problem(token, spec)) out.push_back({job::mask_token_key, std::move(*problem)});
  if (job.sample.tokens > 0)
    out.push_back({"sample.tokens", fmt::format("wanted 0, because a {} model finds masked tokens and generates no "
                                                "text, got {}",
                                                spec.family->model_type, job.sample.tokens)});
}

/// True if `text` has the form of a key's dotted name, whose parts may be quoted, as in `groups."my group".modules`.
bool is_key(std::string_view text) {
  const auto is_of_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '[' || c == ']';
  };
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '"')
      is_quoted = !is_quoted;
    else if (!is_quoted && !is_of_key(c))
      return false;
  }
  return !text.empty() && !is_quoted && text.front() != '"';
}

/// Divides a refusal of job/, "key: text", "file:line: key: text" or "--set key=value:line: key: text", into the key
/// and the text; one without a key concerns the model.
key_problem problem_of(const core::error& why) {
  constexpr std::string_view end_of_override = ":1: ";  // an override is one line
  const std::string_view all = why.text;
  const size_t last = all.starts_with("--set ") ? all.find(end_of_override) : all.npos;
  size_t begin = last == all.npos ? 0 : last + end_of_override.size();
  for (int parts = 0; parts < 2; ++parts) {
    const size_t end = all.find(": ", begin);
    if (end == all.npos) break;
    const auto part = all.substr(begin, end - begin);
    if (is_key(part)) return {std::string(part), std::string(all.substr(end + 2))};
    begin = end + 2;
  }
  return {"model", why.text};
}

/// Divides a refusal of a plan: one that does not fit a budget concerns the key of that budget, which its text names.
key_problem problem_of_plan(const core::error& why) {
  if (why.kind == core::error_kind::limit)
    for (const char* budget : {"cluster.host_memory_budget", "cuda.memory_limit"})
      if (why.text.find(budget) != std::string::npos) return {budget, why.text};
  return problem_of(why);
}

/// Returns the key that names source `i` of the configuration.
std::string key_of_source(const config::data_section& d, size_t i) {
  const auto& path = d.sources[i].text;
  if (d.sources.size() == 1)
    for (const auto& [key, given] : {std::pair{"data.text", &d.text},
                                     {"data.chat", &d.chat},
                                     {"data.instruct", &d.instruct},
                                     {"data.labelled", &d.labelled}})
      if (path == *given) return key;
  return fmt::format("data.sources[{}].text", i);
}

/// Adds the files that a run would read and that do not exist. The machine on which a job of several hosts is checked
/// need not be one of them.
void add_absent_files(const config::job_config& job, std::vector<key_problem>& out) {
  if (!job.cluster.hosts.empty()) return;
  std::error_code e;
  for (size_t i = 0; i < job.data.sources.size(); ++i) {
    const auto& path = job.data.sources[i].text;
    if (!path.empty() && !std::filesystem::exists(path, e))
      out.push_back({key_of_source(job.data, i), core::path_error("read", path, ENOENT).text});
  }
  for (const auto& set : job.data.validation)
    if (!set.text.empty() && !std::filesystem::exists(set.text, e))
      out.push_back({"data.validation",
                     fmt::format("the set {}: {}", set.name, core::path_error("read", set.text, ENOENT).text)});
  const auto& from = job.checkpoint.load.path;
  // A run that has checkpoints of its own resumes from these.
  if (from.empty() || std::filesystem::exists(from, e) || std::filesystem::is_directory(job.output / "checkpoints", e))
    return;
  if (const auto found = checkpoint::look_into(from); !found)
    out.push_back({"checkpoint.load.path", found.error().text});
}

/// True if a key asks for what only a plan shows: a budget of memory, or one bucket for a weight that pipeline ranks
/// share.
bool needs_plan(const config::job_config& job) {
  const bool has_budget = job.host_memory_budget > 0 || job.compile.memory_budget > 0 || job.cuda.memory_limit > 0;
  return has_budget || (job.tied == config::tied_gradients::in_bucket && job.parallel.pipeline > 1);
}

}  // namespace

std::vector<key_problem> job_problems(const config::job_config& job, intent why) {
  std::vector<key_problem> out;
  if (!job.checkpoint.tag.empty())
    if (const auto ok = checkpoint::check_tag(job.checkpoint.tag_of(0), 0); !ok)
      out.push_back({"checkpoint.tag", ok.error().text});
  auto spec = model_of(job.model, out);
  if (!spec) return out;
  if (job.checkpoint.load.path.empty())
    if (auto unused = job::unused_ignored_key(job.model, *spec, nullptr))
      out.push_back({"model.ignore_keys", std::move(*unused)});
  if (auto adapters = job::choose_adapters(job.lora, *spec))
    spec->adapters = std::move(*adapters);
  else
    out.push_back({adapters.error().key, adapters.error().text});
  add_shadowed_groups(job, *spec, out);
  add_objective_problems(job, *spec, why, out);
  if (why == intent::check) add_absent_files(job, out);
  const uint64_t columns = job.data.sequence_length > 0 ? job.data.sequence_length : spec->longest();
  if (columns > spec->longest()) {
    out.push_back({"data.sequence_length",
                   fmt::format("wanted at most the model's {} positions, got {}", spec->longest(), columns)});
    return out;
  }
  spec->head_tile_rows = models::tile_rows_for(*spec, job.train_micro_batch_size_per_gpu * columns,
                                               core::size_of(job.parameter_dtype()), job.row_tile_bytes);
  spec->mlp_tile_rows = models::mlp_tile_rows_for(*spec, spec->inner, job.train_micro_batch_size_per_gpu * columns,
                                                  core::size_of(job.parameter_dtype()), job.mlp_tile_bytes);
  const bool has_batches = job.train_micro_batch_size_per_gpu > 0 && job.gradient_accumulation_steps > 0;
  if (!has_batches) return out;
  const plan::batch_request batches{
      .rows = job.train_micro_batch_size_per_gpu,
      .columns = columns,
      .accumulation = job.gradient_accumulation_steps,
      .prefetched = job.data.prefetch_batches,
      .ranks = job.parallel.data,
      .recompute = job.activation_checkpointing.enabled && !job.activation_checkpointing.selective,
      .light = job.activation_checkpointing.enabled && job.activation_checkpointing.selective,
      .inputs_on_disk = job.offload_activations == config::offload_device::nvme};
  if (auto problem = pipeline_problem_of(job, *spec, batches)) out.push_back(std::move(*problem));
  if (why == intent::plan) return out;
  const auto one_row = models::make_model_table(*spec, 1, columns, core::size_of(job.parameter_dtype()));
  const bool now = why == intent::run;
  const auto memory = now ? storage::free_memory() : storage::all_memory();
  if (!memory) return out;
  auto refusal =
      plan::refusal_of(one_row, batches, memory->bytes, memory->where + (now ? "'s free memory" : "'s memory"));
  if (!refusal.key.empty()) {
    out.push_back({std::move(refusal.key), std::move(refusal.text),
                   !now && plan::need_of(one_row, batches).total() < double(no_machine_has_bytes)});
    return out;
  }
  // Degrees that are open have no values before a run chooses them.
  const bool is_sound = std::ranges::all_of(out, &key_problem::is_warning);
  if (why != intent::check || !is_sound || !job.open_degrees.empty()) return out;
  const auto shared = std::make_shared<const config::job_config>(job);
  if (const auto ok = job::check_described(shared); !ok) {
    out.push_back(problem_of(ok.error()));
  } else if (needs_plan(job)) {
    if (const auto planned = job::make_blueprint(shared); !planned) out.push_back(problem_of_plan(planned.error()));
  }
  return out;
}

}  // namespace troupe::apps
