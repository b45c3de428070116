#include "apps/agent/doctor_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>

#include "apps/agent/agent_listener.hpp"
#include "apps/agent/host_examiner.hpp"
#include "apps/agent/introduction.hpp"
#include "apps/agent/listen_for_agents.hpp"
#include "apps/agent/pair_rounds.hpp"
#include "apps/base/common_options.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/machine/cluster_doctor.hpp"
#include "apps/machine/pair_speeds.hpp"
#include "core/clock.hpp"
#include "core/system/signal_table.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

/// Nanoseconds within which all hosts must answer a question.
constexpr int64_t answering_ns = 60'000'000'000;
/// Number of times that suspiciously slow pairs of hosts are measured again.
constexpr uint32_t looks_again = 2;
/// Limit of the suspiciously slow pairs of hosts that are measured again.
constexpr size_t doubtful_max = 12;

/// A file in the folder of the job's output, or in its nearest existing parent folder; the destructor removes the file.
/// Hosts that see the file share this folder with the first host.
class token_file {
 public:
  explicit token_file(const fs::path& output) {
    std::error_code e;
    folder_ = output.empty() ? fs::current_path(e) : output;
    if (output.empty()) return;
    while (!fs::is_directory(folder_, e) && folder_.has_parent_path() && folder_ != folder_.parent_path())
      folder_ = folder_.parent_path();
    path_ = folder_ / fmt::format(".troupe-doctor-{}-{:x}", ::getpid(), core::now_ns());
    const int file = ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) ::close(file);
  }
  token_file(const token_file&) = delete;
  token_file& operator=(const token_file&) = delete;
  ~token_file() {
    std::error_code e;
    if (!path_.empty()) fs::remove(path_, e);
  }
  [[nodiscard]] const fs::path& folder() const { return folder_; }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path folder_, path_;
};

class examination {
 public:
  examination(const config::loaded& job, const doctor_arguments& a, const fs::path& program)
      : job_(job),
        arguments_(a),
        own_({program, configuration_digest(job), {}}),
        signals_(take_signals()),
        links_(job.config.cluster.hosts.size()) {
    for (const auto& h : job.config.cluster.hosts) all_.hosts.push_back({h.name, std::nullopt});
  }

  core::result<examined_cluster> run() {
    // The doctor itself reports differing configurations, so agent_listener does not compare them.
    TROUPE_ASSIGN(auto listener,
                  agent_listener::open(job_, {.compares_configurations = false,
                                              .on_refused = [this](const std::string& host, const std::string& why) {
                                                const std::lock_guard lock(mutex_);
                                                refused_[host] = why;
                                              }}));
    own_.listen_at(listener->address());
    TROUPE_TRY(wait_for_agents(*listener));
    TROUPE_TRY(look());
    TROUPE_TRY(measure());
    for (auto& l : links_)
      if (l != nullptr) (void)l->send({cluster::dismissal{}, {}});
    return std::move(all_);
  }

 private:
  [[nodiscard]] bool is_there(uint32_t host) const { return host == 0 || links_[host] != nullptr; }

  /// Waits until one of the descriptors is readable, a signal arrives, or the time is over (at most 1 s per call).
  core::result<void> wait(std::vector<pollfd> on, int64_t until_ns) {
    on.push_back({signals_->number(), POLLIN, 0});
    const int64_t left_ms = (until_ns - core::now_ns()) / 1'000'000;
    ::poll(on.data(), on.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 1, 1000)));
    signalfd_siginfo info{};
    if (::read(signals_->number(), &info, sizeof info) != sizeof info) return {};
    if (!core::ends_run(static_cast<int>(info.ssi_signo))) return {};
    signal_ = static_cast<int>(info.ssi_signo);
    return core::fail(core::error_kind::stopped, "the doctor was ended by a signal");
  }

  core::result<void> wait_for_agents(agent_listener& listener) {
    const int64_t until_ns = core::now_ns() + int64_t{arguments_.wait_s} * 1'000'000'000;
    std::string awaited;
    for (uint32_t h = 1; h < links_.size(); ++h) awaited += (awaited.empty() ? "" : ", ") + all_.hosts[h].name;
    if (!awaited.empty())
      std::fprintf(stderr, "troupe: waits for agents on %s, for %u s\n", awaited.c_str(), arguments_.wait_s);
    for (;;) {
      for (auto& [host, link] : listener.take()) {
        const auto at = std::ranges::find(all_.hosts, host, &examined_host::name);
        if (at != all_.hosts.end()) links_[static_cast<size_t>(at - all_.hosts.begin())] = std::move(link);
      }
      const bool all_there = std::all_of(links_.begin() + 1, links_.end(), [](const auto& l) { return l != nullptr; });
      if (all_there || core::now_ns() > until_ns) break;
      TROUPE_TRY(wait({{listener.number(), POLLIN, 0}}, until_ns));
    }
    const std::lock_guard lock(mutex_);
    for (uint32_t h = 1; h < links_.size(); ++h)
      if (links_[h] == nullptr) {
        const auto why = refused_.find(all_.hosts[h].name);
        all_.hosts[h].problem =
            why != refused_.end()
                ? "its agent was refused: " + why->second
                : fmt::format("no agent connected within {} s: start troupe agent on it, or raise --wait",
                              arguments_.wait_s);
      }
    return {};
  }

  /// Sends each question to the agent of its host, answers the question for this host itself, and returns the answers
  /// by host number. A host that does not answer within answering_ns has no entry; its connection is closed, and its
  /// problem is set.
  core::result<std::map<uint32_t, std::string>> ask(const std::map<uint32_t, doctor_question>& questions) {
    std::map<uint32_t, std::string> out;
    ++number_;
    for (const auto& [host, q] : questions)
      if (host > 0) (void)links_[host]->send({cluster::machine_question{number_, encode(q)}, {}});
    if (const auto own = questions.find(0); own != questions.end()) out[0] = own_.answer(encode(own->second));
    const int64_t until_ns = core::now_ns() + answering_ns;
    const auto give_up = [&](uint32_t host, const std::string& why) {
      links_[host].reset();
      all_.hosts[host].problem = why;
    };
    for (;;) {
      std::vector<pollfd> on;
      for (const auto& [host, q] : questions) {
        if (out.contains(host) || !is_there(host)) continue;
        auto came = links_[host]->receive();
        if (!came) {
          give_up(host, "the link to its agent ended: " + came.error().text);
          continue;
        }
        for (auto& p : *came)
          if (auto* x = std::get_if<cluster::machine_answer>(&p.what); x != nullptr && x->number == number_)
            out[host] = std::move(x->what);
        if (out.contains(host)) continue;
        if (core::now_ns() > until_ns)
          give_up(host, fmt::format("it did not answer within {} s", answering_ns / 1'000'000'000));
        else
          on.push_back({links_[host]->number(), POLLIN, 0});
      }
      if (on.empty()) return out;
      TROUPE_TRY(wait(on, until_ns));
    }
  }
  /// Asks each connected host the question that `question` returns for it.
  core::result<std::map<uint32_t, std::string>> ask_all(const std::function<doctor_question(uint32_t host)>& question) {
    std::map<uint32_t, doctor_question> all;
    for (uint32_t h = 0; h < links_.size(); ++h)
      if (is_there(h)) all.emplace(h, question(h));
    return ask(all);
  }

  core::result<void> look() {
    const token_file token(job_.config.output);
    look_question q{token.folder(), token.path(), {}};
    for (const auto& source : job_.config.data.sources) q.files.push_back(source.text);
    for (const auto& set : job_.config.data.validation) q.files.push_back(set.text);
    if (!job_.config.data.tokenizer_path.empty()) q.files.push_back(job_.config.data.tokenizer_path);
    TROUPE_ASSIGN(const auto answers, ask_all([&](uint32_t) { return q; }));
    for (const auto& [host, text] : answers) {
      auto facts = decode_answer<host_facts>(text);
      if (facts)
        all_.hosts[host].facts = std::move(*facts);
      else
        all_.hosts[host].problem = facts.error().text;
    }
    return {};
  }

  core::result<void> measure() {
    const std::string secret = draw_term_secret();
    TROUPE_ASSIGN(const auto opened, ask_all([&](uint32_t h) {
                    const auto& c = job_.config.cluster;
                    return open_question{secret, h, c.hosts[h].bind, c.interface};
                  }));
    connect_question all;
    std::map<uint32_t, std::string> problems;
    for (const auto& [host, text] : opened) {
      auto place = decode_answer<mover_place>(text);
      if (place) {
        // the number under which the host was asked, because the number in its answer is not trusted
        place->place = host;
        all.all.push_back(std::move(*place));
      } else {
        all_.hosts[host].cannot_listen = place.error().text;
      }
    }
    if (all.all.size() < 2) return {};
    std::map<uint32_t, doctor_question> connect;
    for (const auto& m : all.all) connect.emplace(m.place, all);
    TROUPE_ASSIGN(const auto connected, ask(connect));
    for (const auto& [host, text] : connected)
      if (const auto ok = decode_answer<no_answer>(text); !ok) problems[host] = ok.error().text;
    std::vector<uint32_t> hosts;
    for (const auto& m : all.all) hosts.push_back(m.place);
    for (const auto& round : pair_rounds(hosts))
      for (const bool back : {false, true}) TROUPE_TRY(measure(round, back, problems));
    std::ranges::sort(all_.pairs, {}, [](const examined_pair& p) { return std::pair(p.from, p.to); });
    for (uint32_t looks = 0; looks < looks_again; ++looks)
      for (const size_t i : doubtful_pairs(all_, doubtful_max)) TROUPE_TRY(measure_again(all_.pairs[i]));
    return {};
  }

  /// Measures a pair again and stores the better values, because other load on hosts and networks can only worsen a
  /// measurement.
  core::result<void> measure_again(examined_pair& p) {
    if (!is_there(p.from) || !is_there(p.to)) return {};
    TROUPE_ASSIGN(const auto answers, ask({{p.from, measure_question{p.to}}}));
    const auto text = answers.find(p.from);
    if (text == answers.end()) return {};
    const auto speed = decode_answer<pair_speed>(text->second);
    if (!speed) return {};
    p.delay_s = std::min(p.delay_s, speed->delay_s);
    p.bytes_per_s = std::max(p.bytes_per_s, speed->bytes_per_s);
    return {};
  }

  core::result<void> measure(const std::vector<host_pair>& round, bool back,
                             const std::map<uint32_t, std::string>& problems) {
    std::map<uint32_t, doctor_question> questions;
    std::map<uint32_t, uint32_t> to;
    for (const auto& p : round) {
      const auto [from, other] = back ? std::pair(p.second, p.first) : p;
      if (!is_there(from) || !is_there(other)) continue;
      questions.emplace(from, measure_question{other});
      to[from] = other;
    }
    TROUPE_ASSIGN(const auto answers, ask(questions));
    for (const auto& [from, text] : answers) {
      const auto speed = decode_answer<pair_speed>(text);
      examined_pair p{from, to[from]};
      if (speed) {
        p.delay_s = speed->delay_s;
        p.bytes_per_s = speed->bytes_per_s;
      } else {
        // `problems` is keyed by the host that opens the connection of a pair: the one with the higher number.
        const auto why = problems.find(std::max(from, p.to));
        p.problem = why != problems.end() ? why->second : speed.error().text;
      }
      all_.pairs.push_back(std::move(p));
    }
    return {};
  }

 public:
  [[nodiscard]] int signal() const { return signal_; }

 private:
  const config::loaded& job_;
  const doctor_arguments& arguments_;
  host_examiner own_;
  cluster::shared_descriptor signals_;
  /// Links to the agents, by host number; null for the first host and for hosts that are not connected
  std::vector<std::unique_ptr<cluster::polled_link>> links_;
  examined_cluster all_;
  uint64_t number_ = 0;
  int signal_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::string> refused_;  ///< reason for which a host's agent was refused, by host name
};

}  // namespace

int cluster_doctor(const doctor_arguments& a, const fs::path& program) {
  const auto job = load_configuration({a.file, a.set, false}, std::nullopt, intent::look);
  if (!job) return 2;
  if (job->config.cluster.hosts.empty())
    return failed({core::error_kind::bad_input, "--cluster: wanted a file with cluster.hosts, got " + a.file});
  raise_descriptors();
  examination all(*job, a, program);
  const auto cluster = all.run();
  if (!cluster) return all.signal() != 0 ? 128 + all.signal() : failed(cluster.error());
  const auto found = examine(*cluster);
  std::fputs((a.form == output_form::json ? cluster_json : cluster_text)(*cluster, found).c_str(), stdout);
  return fits(found) ? 0 : 1;
}

}  // namespace troupe::apps
