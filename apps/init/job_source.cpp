#include "apps/init/job_source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "config/keys/values.hpp"
#include "config/load.hpp"
#include "core/text.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/source/source_view.hpp"

namespace troupe::apps {

std::string path_in_file(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code e;
  const auto near = std::filesystem::relative(std::filesystem::absolute(path, e), folder, e);
  const std::string out = (e || near.empty() ? std::filesystem::absolute(path) : near).string();
  return config::quoted(out.starts_with('~') ? "./" + out : out);  // ~ alone would be the home folder
}

namespace {

namespace fs = std::filesystem;

core::result<void> import_deepspeed(job_text& text, std::map<std::string, std::string>& given, const fs::path& from,
                                    const fs::path& folder) {
  config::load_options options;
  options.read_as = config::reading::deepspeed_only;
  const auto read = config::load(from, options);
  if (!read) {
    std::string all = config::render(read.error());
    if (!all.empty()) all.pop_back();
    return fail(error_kind::bad_input, "--from: " + all);
  }
  for (const auto& v : read->values)
    if (v.origin != "auto" && std::ranges::binary_search(read->given, v.key)) given[v.key] = v.value;
  text.put("deepspeed_config", path_in_file(from, folder),
           "Its keys apply as if they were in this file; the keys of this file take precedence");
  return {};
}

/// Adds to `text` the keys of `config`, the configuration of the run that wrote the checkpoint, except those that name
/// the run's output folder, the checkpoint that it began from, its model's folder and a DeepSpeed configuration.
core::result<void> put_run(job_text& text, const std::string& config) {
  if (config.empty()) return {};
  const auto read = config.starts_with('{') ? config::read_json(config, 0) : config::read_yaml(config, 0);
  if (read.root == nullptr)
    return fail(error_kind::bad_input, fmt::format("the configuration of its run cannot be read: line {}: {}",
                                                   read.problems.front().at.line, read.problems.front().text));
  text.put_all(*read.root, {"output", "checkpoint.load", "deepspeed_config", "model.path"});
  return {};
}

/// Returns the number of samples in a step, if the checkpoint states it or its counts of samples and steps imply it;
/// else 0.
uint64_t samples_of_a_step(const formats::source_run& run) {
  if (run.samples_per_step) return *run.samples_per_step;
  if (!run.samples || !run.steps || *run.steps == 0 || *run.samples % *run.steps != 0) return 0;
  return *run.samples / *run.steps;
}

}  // namespace

core::result<uint64_t> put_source(job_text& text, std::map<std::string, std::string>& given, const fs::path& from,
                                  const fs::path& folder, const std::vector<std::string>& ignored_keys) {
  std::error_code e;
  const bool is_yaml = from.extension() == ".yaml" || from.extension() == ".yml";
  if ((from.extension() == ".json" || is_yaml) && fs::is_regular_file(from, e) && !formats::is_index_name(from)) {
    TROUPE_TRY(import_deepspeed(text, given, from, folder));
    return 0;
  }
  source_arguments a;
  a.path = from.string();
  a.ignored_keys = ignored_keys;
  // Messages about a damaged checkpoint suggest no option, because `init` has none for older checkpoints
  a.older_by = "";
  const auto opened = open_described(a, {});
  if (!opened)
    return fail(opened.error().kind,
                "--from: wanted a ds_config.json, a file of Accelerate's or a checkpoint: " + opened.error().text);
  const auto format = checkpoint::recognise(from);
  if (format && (*format)->is_model_folder && fs::is_directory(from, e) && !opened->source.run.steps) {
    text.put("model.path", path_in_file(from, folder));
    return 0;
  }
  if (auto ok = put_run(text, opened->source.run.config); !ok)
    return fail(ok.error().in(fmt::format("'{}'", from.string())));
  if (!opened->model.json.empty() && !text.has_below("model")) {
    const auto read = config::read_json("{\"model\": " + opened->model.json + "}", 0);
    if (read.root != nullptr) text.put_all(*read.root);
  }
  if (const auto samples = samples_of_a_step(opened->source.run); samples > 0 && !text.has("train_batch_size")) {
    text.put("train_batch_size", fmt::to_string(samples));
    text.drop("gradient_accumulation_steps");
  }
  if (std::ranges::any_of(opened->source.files,
                          [](const auto& f) { return f.view != nullptr && f.view->is_compressed(); }))
    text.put("model.dequantise", "true");
  const bool own = fs::exists(opened->source.folder / "manifest.json", e);
  text.put("checkpoint.load.path", path_in_file(own ? opened->source.folder : from, folder));
  return opened->source.run.steps.value_or(0);
}

}  // namespace troupe::apps
