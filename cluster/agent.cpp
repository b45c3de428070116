#include "cluster/agent.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <variant>

#include "cluster/agent_state.hpp"
#include "cluster/children.hpp"
#include "cluster/job_file.hpp"
#include "cluster/launch.hpp"
#include "cluster/process.hpp"
#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

class agent {
 public:
  agent(polled_link& supervisor, const agent_options& o)
      : supervisor_(supervisor), options_(o), state_(core::now_ns()) {}

  core::result<std::optional<int>> run() {
    for (;;) {
      wait();
      auto came = supervisor_.receive();
      if (!came) return lost(agent_state::lost(came.error().text));
      for (auto& p : *came) TROUPE_TRY(state_.hear(std::move(p.what), core::now_ns()));
      TROUPE_TRY(act());
      if (state_.is_let_go() && !state_.code()) return std::nullopt;
      if (state_.code() && (!children_ || children_->is_empty())) return state_.code();
      if (state_.code() && core::now_ns() > state_.over_ns() + ending_ns_max) children_->kill_all();
      if (auto ok = state_.look(core::now_ns(), !came->empty()); !ok) return lost(ok.error());
      TROUPE_TRY(act());
      if (failure_) return lost(agent_state::lost(*failure_));
    }
  }

 private:
  core::result<std::optional<int>> lost(const core::error& why) {
    if (children_) children_->kill_all();
    if (state_.code_alone()) return state_.code_alone();
    return core::fail(why);
  }

  core::result<void> act() {
    for (auto actions = state_.take(); !actions.empty(); actions = state_.take())
      for (auto& a : actions) TROUPE_TRY(std::visit([this](auto& x) { return follow(x); }, a));
    return {};
  }
  core::result<void> follow(tell_supervisor& x) {
    if (const auto sent = supervisor_.send({std::move(x.what), {}}); !sent) failure_ = sent.error().text;
    return {};
  }
  core::result<void> follow(const machine_question& x) {
    tell_supervisor answer{machine_answer{x.number, options_.answer ? options_.answer(x.what) : std::string()}};
    return follow(answer);
  }
  core::result<void> follow(tell_process& x) {
    if (std::holds_alternative<started>(x.what.what) && options_.on_begun && !has_begun_) {
      has_begun_ = true;
      options_.on_begun(order_);
    }
    children_->send(x.place, std::move(x.what));
    return {};
  }
  core::result<void> follow(const let_end& x) {
    if (!x.why.empty())
      options_.say((x.goes_on ? "the job continues without this host: " : "the job has ended: ") + x.why);
    if (children_) children_->let_end();
    return {};
  }
  core::result<void> follow(const tell_people& x) {
    options_.say(x.line);
    return {};
  }
  core::result<void> follow(const start_place& x) {
    if (const auto ok = children_->start(x.place); !ok)
      state_.process_ended(x.place, "cannot be started: " + ok.error().text);
    return {};
  }
  core::result<void> follow(const kill_place& x) {
    children_->kill(x.place);
    return {};
  }
  core::result<void> follow(const signalled& x) {
    children_->pass_signal(x.place, x.signal);
    return {};
  }
  core::result<void> follow(const job_order& order) {
    ::setenv(machine_variable, fmt::to_string(order.machine).c_str(), 1);
    if (!order.folder.empty() && ::chdir(order.folder.c_str()) != 0)
      options_.say("the folder " + order.folder +
                   " does not exist here: relative paths are resolved in the current one");
    if (::access("/proc/self/fd", F_OK) != 0)
      return core::fail(error_kind::limit,
                        "an agent: /proc is not mounted; its processes read the job's file there, so mount it");
    TROUPE_ASSIGN(auto file, file_of(order));
    file_ = file;
    order_ = order;
    uint32_t places = 0;
    for (const uint32_t p : order.places) places = std::max(places, p + 1);
    children_.emplace(
        children_setup{options_.program, arguments_with(order, file_), places},
        [this](uint32_t place, parcel p) { state_.hear_process(place, std::move(p)); },
        [this](uint32_t place, const std::string& how) { state_.process_ended(place, how); });
    return {};
  }

  void wait() {
    const int events = POLLIN | (supervisor_.has_waiting() ? POLLOUT : 0);
    std::vector<pollfd> on{{options_.signals ? options_.signals->number() : -1, POLLIN, 0},
                           {supervisor_.number(), static_cast<short>(events), 0}};
    if (children_) children_->add_to(on);
    const int64_t left_ms = (state_.due_ns() - core::now_ns()) / 1'000'000;
    ::poll(on.data(), on.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 1, 100)));
    if ((on[1].revents & POLLOUT) != 0) (void)supervisor_.flush();
    if (children_) children_->listen(on, 2);
    signalfd_siginfo info{};
    while (on[0].revents != 0 && ::read(options_.signals->number(), &info, sizeof info) == sizeof info)
      state_.take_signal(static_cast<int>(info.ssi_signo));
  }

  polled_link& supervisor_;
  const agent_options& options_;
  agent_state state_;
  shared_descriptor file_;
  job_order order_;
  bool has_begun_ = false;
  std::optional<children> children_;
  std::optional<std::string> failure_;
};

}  // namespace

core::result<shared_descriptor> file_of(const job_order& order) {
  auto out = own(::memfd_create("topology", MFD_CLOEXEC));
  const bool is_good = out->number() >= 0 && ::write(out->number(), order.file.data(), order.file.size()) ==
                                                 static_cast<ssize_t>(order.file.size());
  if (!is_good) return core::fail(error_kind::limit, "an agent: not enough memory for the job's file");
  return out;
}

std::vector<std::string> arguments_with(const job_order& order, const shared_descriptor& file) {
  auto out = order.arguments;
  const auto path = fmt::format("/proc/{}/fd/{}", ::getpid(), file->number());
  if (order.file_argument < out.size() && ::access(path.c_str(), R_OK) == 0)
    name_job_file(path, std::exchange(out[order.file_argument], path));
  return out;
}

core::result<std::optional<int>> serve_as_agent(polled_link& supervisor, const agent_options& options) {
  return agent(supervisor, options).run();
}

}  // namespace troupe::cluster
