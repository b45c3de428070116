#include "apps/analyse/run_prediction.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/base/configuration.hpp"
#include "apps/base/job_rules.hpp"
#include "apps/plan/plan_costs.hpp"
#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "plan/show/render.hpp"
#include "telemetry/analysis/read_traces.hpp"

namespace troupe::apps {
namespace {

/// A file in memory, which has a path while it lives.
class memory_file {
 public:
  memory_file() : descriptor_(::memfd_create("prediction", MFD_CLOEXEC)) {}
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  core::result<void> write(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const auto written = ::write(descriptor_, text.data() + at, text.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0)
        return core::fail(core::error_kind::io, "cannot keep the predicted step in memory: " +
                                                    std::error_code(errno, std::generic_category()).message());
      at += static_cast<size_t>(written);
    }
    return {};
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

core::result<predicted_traces> predicted_run(const std::filesystem::path& folder) {
  const auto file = folder / "config.yaml";
  std::error_code e;
  if (!std::filesystem::exists(file, e))
    return core::refused(fmt::format("'{}' has no config.yaml of a run", core::printable_line(folder.string())));
  common_arguments job;
  job.file = file.string();
  const auto loaded = checked_configuration(job, intent::plan);
  if (!loaded) {
    for (const auto& one : loaded.error())
      if (one.severity == config::diagnostic::error)
        return core::refused(fmt::format("{}: {}{}", core::printable_line(file.string()),
                                         one.key.empty() ? "" : one.key + ": ", one.text));
    return core::refused(fmt::format("{} is refused", core::printable_line(file.string())));
  }
  const auto& config = loaded->config;
  if (!config.open_degrees.empty())
    return core::refused("the run chose its own degrees (parallel), which its configuration does not have");
  if (config.parallel.ranks() > predicted_ranks_max)
    return core::refused(fmt::format("a run of up to {} ranks is predicted, and this one has {}", predicted_ranks_max,
                                     config.parallel.ranks()));
  TROUPE_ASSIGN(const auto chosen, costs_of(config, {}, {}));
  TROUPE_ASSIGN(const auto blueprint,
                job::make_blueprint(std::make_shared<const config::job_config>(config), {}, &chosen.costs));
  TROUPE_ASSIGN(const auto plans, blueprint.train.all());
  const memory_file trace;
  TROUPE_TRY(trace.write(plan::as_perfetto(plan::predict(plans, chosen.costs))));
  predicted_traces out;
  out.source = chosen.source;
  TROUPE_ASSIGN(out.analysed.traces, telemetry::read_traces({trace.path()}));
  TROUPE_ASSIGN(out.analysed.found, telemetry::analyse(out.analysed.traces));
  out.analysed.of = "troupe plan";
  return out;
}

}  // namespace troupe::apps
