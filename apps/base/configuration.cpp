#include "apps/base/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "apps/base/load_keys.hpp"
#include "cluster/job_file.hpp"
#include "config/accelerate.hpp"
#include "config/explain.hpp"
#include "core/text.hpp"

namespace troupe::apps {

namespace {

using asking = std::function<std::vector<config::key_problem>(const config::job_config&)>;

/// Replaces `path` in a text by `name`, the path that the user typed. `path` is a file that an agent received, so a
/// line and column after it are removed: they count in that file and not in the user's.
std::string with_name(std::string text, const std::string& path, const std::string& name) {
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + name.size())) {
    const size_t end = text.find_first_not_of(":0123456789", at + path.size());
    const bool has_place = at + path.size() < text.size() && text[at + path.size()] == ':';
    size_t to = !has_place ? at + path.size() : end == std::string::npos ? text.size() : end;
    if (has_place && text[to - 1] == ':') --to;
    text.replace(at, to - at, name);
  }
  return text;
}

void name_in(std::vector<config::diagnostic>& all, const std::string& path, const std::string& name) {
  for (auto& x : all) {
    x.text = with_name(std::move(x.text), path, name);
    if (x.file != path) continue;
    x.file = name;
    x.line = x.column = 0;
  }
}

/// Replaces the path of a file that an agent received by the path that the user typed, in all messages and origins.
config::load_result as_user_knows(config::load_result out, const std::string& path) {
  const auto name = cluster::name_of_job_file(path);
  if (name.empty()) return out;
  name_in(out ? out->warnings : out.error(), path, name);
  if (!out) return out;
  out->config.file = name;
  for (auto& x : out->values) x.origin = with_name(std::move(x.origin), path, name);
  return out;
}

/// Loads the file of `a` with `options` and with the overrides of `a`, and applies `--resume`.
config::load_result load_with(const common_arguments& a, config::load_options options) {
  if (!a.resume.empty()) options.overrides.push_back(resume_override(a.resume));
  options.overrides.insert(options.overrides.end(), a.set.begin(), a.set.end());
  auto out = config::load(a.file, options);
  if (out && !a.resume.empty()) out = with_resume(std::move(*out), a.resume);
  return as_user_knows(std::move(out), a.file);
}

config::load_result load(const common_arguments& a, std::optional<uint64_t> steps, intent why, config::reading read_as,
                         const asking& besides = {}) {
  config::load_options options;
  options.strict = a.strict;
  options.steps = steps;
  options.read_as = read_as;
  options.also = [why, &besides](const config::job_config& job, config::so_far found) {
    // Further errors could follow from the refused keys and not be errors of the job that is wanted.
    const bool follows = why == intent::check && found == config::so_far::refused;
    auto out = job_problems(job, follows ? intent::look : why);
    if (besides && found == config::so_far::sound && !out.empty())
      std::ranges::move(besides(job), std::back_inserter(out));
    return out;
  };
  return load_with(a, std::move(options));
}

}  // namespace

config::load_result read_configuration(const common_arguments& a, std::optional<uint64_t> steps) {
  config::load_options options;
  options.steps = steps;
  return load_with(a, std::move(options));
}

config::load_result checked_configuration(const common_arguments& a, intent why) {
  return load(a, std::nullopt, why, config::reading::job);
}

std::optional<config::loaded> load_configuration(const common_arguments& a, std::optional<uint64_t> steps, intent why,
                                                 config::reading read_as, const asking& besides, bool is_said) {
  auto loaded = load(a, steps, why, read_as, besides);
  if (!loaded) {
    if (is_said) std::fprintf(stderr, "%s", config::render(loaded.error()).c_str());
    return std::nullopt;
  }
  if (is_said && !loaded->warnings.empty()) std::fprintf(stderr, "%s", config::render(loaded->warnings).c_str());
  return std::move(*loaded);
}

int check_configuration(const common_arguments& a, output_form form) {
  const auto loaded = load(a, std::nullopt, intent::check, config::reading::either);
  const auto& found = loaded ? loaded->warnings : loaded.error();
  if (form == output_form::json)
    std::printf("%s", config::as_json(found).c_str());
  else
    std::fprintf(stderr, "%s", config::render(found).c_str());
  if (!loaded) return 2;
  if (form != output_form::text) return 0;
  const char* const whose = config::is_accelerate_file(std::filesystem::path(a.file)) ? "configuration of Accelerate"
                                                                                      : "DeepSpeed configuration";
  const auto as = loaded->deepspeed_only ? fmt::format(", as a {}; a job needs model, data and steps too", whose) : "";
  std::printf("%s: good%s\n", core::shown(a.file, 200).c_str(), as.c_str());
  return 0;
}

}  // namespace troupe::apps
