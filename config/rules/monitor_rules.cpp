// Rules of the sections `mlflow` and `wandb`: names that these programs do not accept.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/rules/resolve.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

/// Characters that W&B refuses in the name of a project, and the most bytes that Troupe accepts there.
constexpr std::string_view refused_in_project = "/\\#?%:";
constexpr size_t project_bytes_max = 128;

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
  if (const auto& w = config.wandb; w.enabled) {
    check_line("wandb.group", w.group);
    check_line("wandb.team", w.team);
    if (w.project.size() > project_bytes_max || !is_one_line(w.project) ||
        w.project.find_first_of(refused_in_project) != std::string::npos)
      error("wandb.project", fmt::format("wanted a name of at most {} bytes without {}, which W&B refuses, got '{}'",
                                         project_bytes_max, refused_in_project, core::shown(w.project)));
  }
}

}  // namespace troupe::config
