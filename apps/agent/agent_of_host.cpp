#include "apps/agent/agent_of_host.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "apps/agent/host_examiner.hpp"
#include "apps/agent/introduction.hpp"
#include "apps/agent/takeover.hpp"
#include "apps/base/console.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/signals.hpp"
#include "apps/run/launch_processes.hpp"
#include "cluster/agent.hpp"
#include "cluster/job_file.hpp"
#include "cluster/process.hpp"
#include "core/clock.hpp"
#include "core/host_port.hpp"
#include "net/endpoint.hpp"
#include "net/etcd_store.hpp"
#include "net/term_secret.hpp"

namespace troupe::apps {
namespace {

/// Milliseconds between two attempts to join a job.
constexpr int pause_ms = 500;
/// Nanoseconds for which an agent retries after it was refused because its host already has an agent: that agent may
/// have been lost with its machine before the first host noticed.
constexpr int64_t second_ns_max = 4'000'000'000;

volatile std::sig_atomic_t hung_up = 0;

void tell(const std::string& line) { print_error_line("troupe agent: " + line); }

/// Waits for pause_ms until the signalfd `signals` has a signal, and returns the signal's number; 0 if none arrives.
int signal_within_pause(int signals) {
  pollfd on{signals, POLLIN, 0};
  if (::poll(&on, 1, pause_ms) <= 0) return 0;
  signalfd_siginfo info{};
  return ::read(signals, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

/// Draws the id by which the first host recognises an agent that reconnects.
core::result<std::string> draw_id() {
  TROUPE_ASSIGN(const auto drawn, net::term_secret::draw());
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += fmt::format("{:02x}", static_cast<unsigned>(drawn.bytes()[i]));
  return out;
}

/// Adds a remedy to the error that arises if the name by which the first host was addressed is not the name in its
/// certificate.
core::error naming_first_host(core::error e, const std::string& asked) {
  constexpr std::string_view head = "the certificate for '";
  const auto at = e.text.find(head);
  if (at == std::string::npos || e.text.find("' was shown; wanted one for '" + asked + "'") == std::string::npos)
    return e;
  const auto begin = at + head.size();
  const auto shown = e.text.substr(begin, e.text.find('\'', begin) - begin);
  e.text += fmt::format("; if '{}' is the job's first host, say so: --first {}", shown, shown);
  return e;
}

/// Arguments and cluster section of a job that has begun, which suffice to lead it: from the job's order that an agent
/// received, or from the time in which this host led the job.
class known_job {
 public:
  static std::optional<known_job> of(const std::optional<lead_ended>& led) {
    if (!led || led->arguments.empty()) return std::nullopt;
    cluster::job_order order;
    order.arguments = led->arguments;
    known_job out(std::move(order), nullptr);
    out.cluster_ = *led->cluster;
    return out;
  }
  static std::optional<known_job> of(const cluster::job_order& order) {
    auto file = cluster::file_of(order);
    if (!file) return std::nullopt;
    known_job out(order, std::move(*file));
    const auto loaded = config::load(out.path(), {});
    if (!loaded) return std::nullopt;
    out.cluster_ = loaded->config.cluster;
    return out;
  }
  [[nodiscard]] const config::cluster_section& cluster() const { return cluster_; }
  /// Returns the command line with which this host continues the job as leader. Messages of its processes show the path
  /// of the job's file that the user typed.
  [[nodiscard]] std::vector<std::string> arguments(const own_part& me) const {
    if (file_ != nullptr && order_.file_argument < order_.arguments.size())
      cluster::name_job_file(path(), order_.arguments[order_.file_argument]);
    return file_ != nullptr ? arguments_of_leader(order_, cluster_, path(), me) : order_.arguments;
  }

 private:
  known_job(cluster::job_order order, cluster::shared_descriptor file)
      : order_(std::move(order)), file_(std::move(file)) {}
  [[nodiscard]] std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), file_->number()); }

  cluster::job_order order_;
  /// descriptor of the job's file that this agent received; null: the arguments name a file of this host
  cluster::shared_descriptor file_;
  config::cluster_section cluster_;
};

/// Implements agent(): one host's attempts to join, serve and lead a job.
class agent_of_host {
 public:
  agent_of_host(const agent_setup& a, const std::filesystem::path& program, std::string name, const std::string& id)
      : a_(a),
        program_(program),
        introduction_(as_text(introduction_of(a.job, a.configuration, id, a.node))),
        name_(std::move(name)),
        authority_(authority_digest(a.files.authority)),
        examiner_({program, a.configuration, {}}),
        target_{a.first, a.join, {}},
        job_(known_job::of(a.led)) {
    if (!job_) return;
    leader_ = name_;
    if (const auto at = core::read_host_port(job_->cluster().listen)) own_address_ = at->host;
  }

  /// Blocks the signals that end the agent and opens the descriptor from which they are read. Must be called before
  /// threads start, because a thread that does not block a signal may receive it.
  void take_signals() {
    signals_ = apps::take_signals({SIGHUP});
    if (!is_left_ignored(SIGHUP)) std::signal(SIGHUP, [](int) { hung_up = 1; });
  }
  core::result<void> use(const store_of_job& of) {
    auto opened = net::open_etcd(of.store, of.job, of.lease_s, a_.files);
    if (!opened) return core::fail(opened.error().in("--store"));
    store_ = std::move(*opened);
    of_ = of;
    return {};
  }

  int run(net::endpoint& room) {
    for (;;) {
      auto turn = store_ != nullptr ? ask_store() : core::result<bool>(false);
      if (turn && *turn) {
        if (const auto code = lead(); code) return *code;
        continue;
      }
      if (over_) return *over_;
      if (turn) {
        auto served = serve(room);
        if (served && *served) return **served;
        if (served) continue;
        turn = core::fail(served.error());
      }
      const core::error why = turn.error();
      if (!may_ask_again(why)) return failed(why);
      if (hung_up == 0) {
        say_waits(why.text);
        if (const int signal = signal_within_pause(signals_->number()); core::ends_run(signal)) return 128 + signal;
      }
      if (hung_up != 0) return failed({why.kind, why.text + "; the program that launched this agent has ended"});
    }
  }

 private:
  bool may_ask_again(const core::error& why) {
    const bool is_second = why.text.find(is_here_already) != std::string::npos;
    if (!is_second) second_since_ns_ = core::now_ns();
    return why.kind == core::error_kind::peer_lost || (is_second && core::now_ns() - second_since_ns_ < second_ns_max);
  }
  void say_waits(const std::string& why) {
    if (why != last_) tell(why + "; waits for it");
    last_ = why;
  }

  /// Asks the store for the leader, and sets the leader to join. Returns true if no host leads and this host has taken
  /// the lead. Errors: peer_lost if there is no host to join yet; mismatch for a leader of another job.
  core::result<bool> ask_store() {
    auto now = store_->read();
    if (!now) return store_failed(now.error());
    if (!now->who && !now->over && job_ && can_lead(job_->cluster(), name_)) {
      TROUPE_ASSIGN(auto address, address_to_lead_at(job_->cluster(), name_, own_address_));
      me_ = {name_, address, authority_};
      now = store_->take(me_, net::leader_store::part::continues);
      if (!now) return store_failed(now.error());
      if (now->is_mine) return true;
    }
    if (now->who) return join(*now->who);
    if (now->over && (job_ || a_.led)) {
      tell("the job is over, according to the store");
      over_ = now->over;
      return false;
    }
    if (!target_.address.empty()) return false;  // the target is the address of --join or the last known leader
    return core::fail(core::error_kind::peer_lost, fmt::format("no host leads the job '{}' in {}", of_.job, of_.store));
  }
  core::result<bool> join(const net::lead& who) {
    if (auto why = apps::objection(who, authority_, of_); !why.empty())
      return core::fail(core::error_kind::mismatch, std::move(why));
    if (who.host == name_)
      return core::fail(core::error_kind::peer_lost, "this host led the job before, and that lease has not run out");
    target_ = who;
    leader_ = who.host;
    return false;
  }
  /// Handles a store that did not answer: joins the last known leader, which may still lead. Without a known leader, or
  /// if this host led last, returns the error.
  core::result<bool> store_failed(const core::error& why) {
    if (why.kind != core::error_kind::peer_lost || ((job_ || a_.led) && target_.address.empty()))
      return core::fail(why);
    if (target_.address.empty()) return core::fail(core::error_kind::bad_input, why.text);
    if (why.text != last_store_) tell("warning: " + why.text + "; joins " + target_.address + " as before");
    last_store_ = why.text;
    return false;
  }

  core::result<std::optional<int>> serve(net::endpoint& room) {
    const auto to = core::read_host_port(target_.address);
    if (!to) return core::fail(core::error_kind::mismatch, "wanted HOST:PORT of the leader, got " + target_.address);
    const int64_t within_ns =
        store_ != nullptr ? int64_t{of_.lease_s} * 500'000'000 : net::connector_options{}.deadline_ns;
    auto link = room.connect(to->host, to->port, target_.host, introduction_,
                             std::min(within_ns, net::connector_options{}.deadline_ns));
    if (!link) return core::fail(store_ == nullptr ? naming_first_host(link.error(), target_.host) : link.error());
    tell("joined " + target_.address);
    last_.clear();
    own_address_ = (*link)->own_address();
    ::setenv(cluster::address_variable, own_address_.c_str(), 1);
    examiner_.listen_at(own_address_);
    cluster::agent_options options{program_, tell, signals_,
                                   [this](const std::string& question) { return examiner_.answer(question); }};
    options.on_begun = [this](const cluster::job_order& order) { has_begun(order); };
    auto code = cluster::serve_as_agent(**link, options);
    examiner_.end();
    second_since_ns_ = core::now_ns();
    if (!code || *code) return code;
    tell("was examined; waits for the job");
    return code;
  }

  /// Notes that the job has begun; from now on this host could lead it.
  void has_begun(const cluster::job_order& order) {
    auto known = known_job::of(order);
    if (!known || known->cluster().store.empty()) return;
    const auto of = store_of_job::of(known->cluster());
    if (store_ == nullptr || of_.store != of.store || of_.lease_s != of.lease_s)
      if (auto ok = use(of); !ok) return tell(ok.error().text);
    leader_ = known->cluster().hosts.front().name;
    job_ = std::move(known);
  }

  /// Leads the job. Returns nothing if another host leads after all.
  std::optional<int> lead() {
    const bool led = leader_ == name_;
    tell(led ? fmt::format("no other host has taken the lead: this host, {}, leads the job again, at {}", name_,
                           me_.address)
             : fmt::format("{} is lost: this host, {}, leads the job now, at {}", leader_, name_, me_.address));
    ::unsetenv(cluster::machine_variable);
    const own_part me{name_, me_.address, a_.files};
    auto ended = lead_job(job_->arguments(me), program_, lead_taken{std::move(store_), me_, led ? "" : leader_});
    if (!ended.follows) return ended.code;
    if (auto ok = use(of_); !ok) return failed(ok.error());
    target_ = {};
    leader_ = name_;
    return std::nullopt;
  }

  const agent_setup& a_;
  const std::filesystem::path& program_;
  std::string introduction_, name_, authority_;
  host_examiner examiner_;
  cluster::shared_descriptor signals_;
  std::unique_ptr<net::leader_store> store_;
  store_of_job of_;
  /// Name, address and authority of the host that leads the job and that this host tries to join; the address is empty
  /// if that host is unknown
  net::lead target_;
  /// Name of the host that, as far as this host knows, leads the job or led it last; empty until the job's order or the
  /// store has named one
  std::string leader_;
  net::lead me_;
  std::optional<known_job> job_;
  std::optional<int> over_;  ///< exit code of the ended job, read from the store; empty: the job has not ended
  std::string own_address_, last_, last_store_;
  int64_t second_since_ns_ = core::now_ns();
};

}  // namespace

agent_setup agent_after(const lead_ended& led) {
  const auto& c = *led.cluster;
  const auto tls = c.tls.of(c.hosts.front().name);
  const auto absolute = [](const std::filesystem::path& p) { return std::filesystem::absolute(p); };
  return {.files = {absolute(tls.ca), absolute(tls.certificate), absolute(tls.key)},
          .job = c.job,
          .store = store_of_job::of(c),
          .led = led};
}

int agent(const agent_setup& a, const std::filesystem::path& program) {
  auto me = net::identity::load(a.files);
  if (!me) return failed(me.error());
  const auto id = draw_id();
  if (!id) return failed(id.error());
  const console out;  // relays the output, so that a reader that stops reading does not block the agent
  agent_of_host host(a, program, me->name(), *id);
  host.take_signals();
  if (a.store)
    if (auto ok = host.use(*a.store); !ok) return failed(ok.error());
  auto room = net::endpoint::open({.me = std::move(*me)});
  if (!room) return failed(room.error());
  raise_descriptors();
  return host.run(**room);
}

}  // namespace troupe::apps
