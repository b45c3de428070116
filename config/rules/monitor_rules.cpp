// Rules of the section `mlflow`: names that MLflow does not accept.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/rules/resolve.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

bool is_one_line(std::string_view text) { return std::ranges::none_of(text, core::is_ascii_control); }

}  // namespace

void monitor_rules(const settings& given, const job_config& config, reporter& report) {
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  const auto check_line = [&](std::string_view key, const std::string& text) {
    if (!is_one_line(text)) error(key, fmt::format("wanted a name of one line, got '{}'", core::shown(text)));
  };
  if (const auto& m = config.mlflow; m.enabled) {
    check_line("mlflow.run_name", m.run_name);
    if (m.experiment.empty() || !is_one_line(m.experiment) || core::trimmed(m.experiment) != m.experiment)
      error("mlflow.experiment",
            fmt::format("wanted a name of one line without blanks around it, got '{}'", core::shown(m.experiment)));
  }
}

}  // namespace troupe::config
