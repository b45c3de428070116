#include "apps/python/training/job_settings.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "apps/base/job_rules.hpp"
#include "apps/base/load_keys.hpp"

namespace troupe::apps {
namespace {

/// Name of a text of YAML in messages, and of its default output folder, runs/job.
constexpr const char* text_name = "job.yaml";

/// Returns all problems as the text of one error.
core::error error_of(const std::vector<config::diagnostic>& problems) {
  std::string lines = config::render(problems);
  while (lines.ends_with('\n')) lines.pop_back();
  return {core::error_kind::bad_input, std::move(lines)};
}

config::load_result load_from(const job_settings& settings, const config::load_options& options) {
  if (const auto* file = std::get_if<std::filesystem::path>(&settings.from)) return config::load(*file, options);
  if (const auto* text = std::get_if<yaml_text>(&settings.from)) {
    std::error_code ignored;
    return config::load_text(text->text, text_name, std::filesystem::current_path(ignored), options);
  }
  return std::get<config::job_builder>(settings.from).load(options);
}

}  // namespace

core::result<config::loaded> load_job(const job_settings& settings) {
  config::load_options options;
  options.steps = settings.steps;
  options.also = [](const config::job_config& job, config::so_far) { return job_problems(job, intent::run); };
  if (!settings.resume.empty()) options.overrides.push_back(resume_override(settings.resume.string()));
  options.overrides.insert(options.overrides.end(), settings.set.begin(), settings.set.end());
  auto out = load_from(settings, options);
  if (out && !settings.resume.empty()) out = with_resume(std::move(*out), settings.resume.string());
  if (!out) return core::fail(error_of(out.error()));
  const auto& cluster = out->config.cluster;
  if (cluster.is_on())
    return core::refused(
        "cluster.processes: wanted one, since a session of Python runs all ranks in its own process, got several; "
        "`troupe train` runs such a job");
  if (!cluster.page.empty())
    return core::refused(fmt::format(
        "cluster.page: wanted none, since a session of Python serves no page, got {}; `troupe train` serves it",
        cluster.page));
  return std::move(*out);
}

}  // namespace troupe::apps
