#include "apps/configuration.hpp"

#include <cstdio>

namespace troupe::apps {

std::optional<config::loaded> load_configuration(const common_arguments& a, std::optional<uint64_t> steps,
                                                 config::reading read_as) {
  config::load_options options;
  options.overrides = a.set;
  options.strict = a.strict;
  options.steps = steps;
  options.read_as = read_as;
  auto loaded = config::load(a.file, options);
  if (!loaded) {
    std::fprintf(stderr, "%s", config::render(loaded.error()).c_str());
    return std::nullopt;
  }
  if (!loaded->warnings.empty()) std::fprintf(stderr, "%s", config::render(loaded->warnings).c_str());
  return std::move(*loaded);
}

}  // namespace troupe::apps
