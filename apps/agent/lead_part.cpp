#include "apps/agent/lead_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "apps/agent/lead_keeper.hpp"
#include "apps/agent/listen_for_agents.hpp"
#include "apps/agent/takeover.hpp"
#include "apps/base/error_line.hpp"
#include "apps/run/launch_processes.hpp"
#include "apps/run/train.hpp"
#include "core/host_port.hpp"
#include "core/system/signal_table.hpp"
#include "net/etcd_store.hpp"
#include "storage/files/digest.hpp"

namespace troupe::apps {
namespace {

/// Pause between two attempts to acquire the lead while an earlier lease of this host has not expired.
constexpr auto look_again = std::chrono::milliseconds(200);

void tell(const std::string& line) { print_error_line("troupe: " + line); }

/// True if a signal that ends the program is pending.
bool is_told_to_end() {
  sigset_t waiting;
  return ::sigpending(&waiting) == 0 && std::ranges::any_of(core::signal_table, [&](const core::signal_meaning& s) {
           return s.effect == core::signal_effect::ends && sigismember(&waiting, s.number) == 1;
         });
}

class lead_part {
 public:
  lead_part(const std::filesystem::path& program, std::optional<lead_taken> taken)
      : program_(program), continues_(taken), taken_(std::move(taken)) {}

  lead_ended run(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (auto& x : arguments) argv.push_back(x.data());
    argv.push_back(nullptr);
    const auto code = launch_processes(static_cast<int>(arguments.size()), argv.data(), program_,
                                       [this](const config::loaded& job, bool names_hosts, const say_function& say) {
                                         return open(job, names_hosts, say);
                                       });
    lead_ended out{code ? *code : 2, std::move(follows_), std::move(cluster_), std::move(arguments)};
    if (kept_ && kept_->is_replaced())
      out.follows = net::lead{};
    else if (kept_ && (has_run_ || out.code > 128))  // after a failure before the first step, another host may lead
      kept_->end(out.code);
    kept_.reset();
    return out;
  }

 private:
  core::result<agents_of_hosts> open(const config::loaded& job, bool names_hosts, const say_function& say) {
    const auto& c = job.config.cluster;
    if (c.store.empty()) return listen_for_agents(job, names_hosts, say);
    cluster_ = c;
    if (!taken_) {
      if (auto ok = take(c); !ok) return core::fail(ok.error().in("cluster.store"));
      if (follows_) return agents_of_hosts{};
    }
    const auto of = store_of_job::of(c);
    auto out = listen_for_agents(job, names_hosts, say);
    if (!out) {
      (void)taken_->store->give_up(std::nullopt);
      return out;
    }
    const auto lost = std::ranges::find(c.hosts, taken_->lost, &config::cluster_host::name);
    if (lost != c.hosts.end()) out->lost.push_back(static_cast<uint32_t>(lost - c.hosts.begin()));
    if (continues_) out->gathers_ns = int64_t{2} * of.lease_s * 1'000'000'000;
    kept_ = std::make_unique<kept_lead>(std::move(taken_->store), std::move(taken_->me), of.lease_s, say);
    out->replaced = kept_->replaced();
    out->watch = [this](const cluster::job_standing& is) {
      has_run_ = has_run_ || is.has_run;
      kept_->miss_hosts(is.misses_hosts);
    };
    return out;
  }

  core::result<void> take(const config::cluster_section& c) {
    const auto of = store_of_job::of(c);
    const std::string& host = c.hosts.front().name;
    const auto tls = c.tls.of(host);
    TROUPE_ASSIGN(auto store, net::open_etcd(of.store, of.job, of.lease_s, {tls.ca, tls.certificate, tls.key}));
    TROUPE_ASSIGN(auto address, address_to_lead_at(c, host, core::read_host_port(c.listen)->host));
    const net::lead me{host, address, authority_digest(c.tls.of(host).ca)};
    for (bool is_said = false;; is_said = true) {
      TROUPE_ASSIGN(const auto got, store->take(me, net::leader_store::part::begins));
      if (got.is_mine) {
        taken_ = lead_taken{std::move(store), me, {}};
        return {};
      }
      if (!got.who)
        return core::fail(error_kind::mismatch,
                          "cluster.store: the store does not let this host lead the job, and names no leader");
      if (auto why = objection(*got.who, me.authority, of); !why.empty())
        return core::fail(error_kind::mismatch, std::move(why));
      if (got.who->host != host) {
        tell(fmt::format("{} at {} leads the job: this host serves as its agent", got.who->host, got.who->address));
        follows_ = *got.who;
        return {};
      }
      if (!is_said) tell("this host led the job before: waits until that lease has run out");
      if (is_told_to_end()) return core::fail(error_kind::stopped, "ended by a signal while it waited for the lease");
      std::this_thread::sleep_for(look_again);
    }
  }

  const std::filesystem::path& program_;
  bool continues_;  ///< true: the job had begun before this host took the lead
  bool has_run_ = false;
  std::optional<lead_taken> taken_;
  std::unique_ptr<kept_lead> kept_;
  std::optional<net::lead> follows_;
  std::optional<config::cluster_section> cluster_;
};

}  // namespace

std::string authority_digest(const std::filesystem::path& certificate) {
  std::ifstream in(certificate, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return text.empty() ? text : storage::to_hex(storage::digest_of(text));
}

std::string objection(const net::lead& to, const std::string& authority, const store_of_job& of) {
  if (to.authority == authority) return {};
  return fmt::format(
      "wanted the leader of a job of this host's authority in the key {} of {}, got {} at {} of another authority: "
      "give each job a name of its own (cluster.job)",
      net::key_of_leader(of.job), of.store, to.host, to.address);
}

lead_ended lead_job(std::vector<std::string> arguments, const std::filesystem::path& program,
                    std::optional<lead_taken> taken) {
  // A job that had begun continues from its own newest checkpoint, whatever its arguments say about its beginning.
  if (taken) ::setenv(continues_variable, "1", 1);
  auto out = lead_part(program, std::move(taken)).run(std::move(arguments));
  ::unsetenv(continues_variable);
  return out;
}

}  // namespace troupe::apps
