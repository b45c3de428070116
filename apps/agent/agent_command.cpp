#include "apps/agent/agent_command.hpp"

#include <utility>

#include "apps/agent/introduction.hpp"
#include "apps/base/configuration.hpp"
#include "apps/base/exit_code.hpp"
#include "core/host_port.hpp"
#include "core/store_place.hpp"

namespace troupe::apps {
namespace {

/// Facts from the configuration file that the user gave on this machine, if any: the digest of its settings, and the
/// store (an etcd service) that names the job's leader.
struct own_file {
  std::string digest;
  std::optional<store_of_job> store;
};
/// Returns the facts of this machine's own configuration file. Prints the error and returns nothing if the file is
/// refused.
std::optional<own_file> file_of(const agent_arguments& a) {
  if (a.configuration.empty()) return own_file{};
  const auto loaded = load_configuration({a.configuration, a.set, false}, std::nullopt, intent::look);
  if (!loaded) return std::nullopt;
  const auto& c = loaded->config.cluster;
  return own_file{configuration_digest(*loaded), c.store.empty() ? std::nullopt : std::optional(store_of_job::of(c))};
}

/// Returns the store (an etcd service that names the job's leader) of the arguments, or of this machine's own file.
/// Errors: bad_input if neither names a store and --join is missing, or if --store is wrong.
core::result<std::optional<store_of_job>> store_for(const agent_arguments& a, const own_file& file) {
  if (a.store.empty()) {
    if (a.join.empty() && !file.store)
      return core::fail(core::error_kind::bad_input,
                        "wanted --join HOST:PORT, or --store etcd://HOST:PORT, which names the leader, got neither");
    return file.store;
  }
  if (!core::read_store(a.store))
    return core::fail(
        core::error_kind::bad_input,
        "--store: wanted etcd://HOST:PORT or etcd://HOST:PORT,HOST:PORT (etcds:// for TLS), got `" + a.store + "`");
  if (a.job.empty())
    return core::fail(core::error_kind::bad_input, "--store: give --job NAME too, which names the job's key");
  return store_of_job{a.store, a.job, file.store ? file.store->lease_s : net::lease_s_for(0)};
}

}  // namespace

std::optional<agent_setup> setup_of(const agent_arguments& a) {
  const auto refused = [](const core::error& why) {
    (void)failed(why);
    return std::nullopt;
  };
  const auto to = core::read_host_port(a.join);
  if (!a.join.empty() && !to)
    return refused({core::error_kind::bad_input, "--join: wanted HOST:PORT, got `" + a.join + "`"});
  auto file = file_of(a);
  if (!file) return std::nullopt;
  const auto store = store_for(a, *file);
  if (!store) return refused(store.error());
  return agent_setup{.join = a.join,
                     .first = a.first.empty() && to ? to->host : a.first,
                     .files = net::identity_files_in(std::filesystem::absolute(a.tls)),
                     .job = a.job,
                     .configuration = std::move(file->digest),
                     .store = *store};
}

}  // namespace troupe::apps
