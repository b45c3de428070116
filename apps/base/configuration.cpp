#include "apps/base/configuration.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "config/explain.hpp"

namespace troupe::apps {

namespace {

using asking = std::function<std::vector<config::key_problem>(const config::job_config&)>;

config::load_result load(const common_arguments& a, std::optional<uint64_t> steps, intent why, config::reading read_as,
                         const asking& besides = {}) {
  config::load_options options;
  options.overrides = a.set;
  options.strict = a.strict;
  options.steps = steps;
  options.read_as = read_as;
  options.also = [why, &besides](const config::job_config& job, config::so_far found) {
    auto out = job_problems(job, why);
    if (besides && found == config::so_far::sound && !out.empty())
      std::ranges::move(besides(job), std::back_inserter(out));
    return out;
  };
  return config::load(a.file, options);
}

}  // namespace

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
  const auto loaded = load(a, std::nullopt, intent::look, config::reading::either);
  const auto& found = loaded ? loaded->warnings : loaded.error();
  if (form == output_form::json)
    std::printf("%s", config::as_json(found).c_str());
  else
    std::fprintf(stderr, "%s", config::render(found).c_str());
  if (!loaded) return 2;
  if (form == output_form::text)
    std::printf("%s: good%s\n", a.file.substr(0, 200).c_str(),
                loaded->deepspeed_only ? ", as a DeepSpeed configuration; a job needs model, data and steps too" : "");
  return 0;
}

}  // namespace troupe::apps
