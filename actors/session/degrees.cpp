// Chooses the parallel degrees that a configuration leaves open, also for a host program's own model, whose tables
// depend on them; job/degrees.hpp owns the list of divisions and the choice.
#include <optional>
#include <utility>

#include "actors/modules/host_run.hpp"
#include "actors/opening/opening.hpp"
#include "actors/session/session.hpp"
#include "job/degrees.hpp"

namespace troupe::actors {
namespace {

/// Makes the host program's own model for each combination of degrees, from whose tables plans are made. Each
/// model exists until the next one is made.
class prepared_models {
 public:
  explicit prepared_models(std::shared_ptr<const host_model> model) : model_(std::move(model)) {}
  job::tables_for tables() {
    if (model_ == nullptr) return {};
    return [this](const config::job_config& c) -> core::result<job::host_tables> {
      TROUPE_ASSIGN(auto made, prepare(model_, c));
      last_ = std::move(made);
      return tables_of({.model = model_, .instances = last_});
    };
  }

 private:
  std::shared_ptr<const host_model> model_;
  std::shared_ptr<models::prepared_modules> last_;
};

}  // namespace

core::result<run_degrees> session::choose_degrees(const session_options& options) {
  if (options.config == nullptr || options.config->open_degrees.empty())
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration with open degrees");
  const auto& c = *options.config;
  opening_watch watch(options.hooks.on_opening);
  TROUPE_TRY(watch.begin("comparing degrees"));
  prepared_models host(options.model);
  TROUPE_ASSIGN(const auto list,
                job::list_degrees(c, host.tables(), options.kept_costs ? &options.kept_costs->costs : nullptr,
                                  [&] { return watch.go_on(); }));
  run_degrees out;
  TROUPE_ASSIGN(out.taken, job::chosen_degrees(list, c));
  out.config = std::make_shared<const config::job_config>(c.with(out.taken));
  out.reason = job::reason_of(list);
  out.table = job::degrees_as_table(list);
  return out;
}

}  // namespace troupe::actors
