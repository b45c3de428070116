// Owns the first machine's links to the agents of other machines, one for each connected agent, and the messages on
// them. Leaves the consequences of an agent that joins, leaves or is silent to supervision.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/supervision.hpp"

namespace troupe::cluster {

class agent_links {  ///< owns the links to the agents of one job, and handles their messages; used by one thread
 public:
  /// Creates the links; no agent is connected yet. `order`: first message to each agent, completed with the agent's
  /// machine and the numbers of its processes. `on_signal`: called with the number of a system signal that an agent has
  /// received, unless the agent's machine was replaced.
  agent_links(const supervised_job& job, job_order order, supervision& decides, std::function<void(int)> on_signal);

  /// Handles an agent that connects from machine `host`. Drops an agent of a machine that is not in the job; if the job
  /// is over, tells the agent so.
  void welcome(const std::string& host, std::unique_ptr<polled_link> link, int64_t now_ns);
  void tell(uint32_t machine, message m, int64_t now_ns);
  void tell_process(uint32_t place, const parcel& p, int64_t now_ns);
  /// Handles all messages that have arrived from the agent of `machine`.
  void hear(uint32_t machine, int64_t now_ns);
  void drop(uint32_t machine) { links_[machine].reset(); }
  /// Tells the agent of machine `x.machine` to end with `x.code` while the job continues, and closes the link to it.
  void leave_out(const leave_out_agent& x, int64_t now_ns);
  /// Tells all connected agents that the job is over.
  void end_job(int32_t code, const std::string& why, int64_t now_ns);

  /// Returns [machine]: link to the machine's agent; null if the agent is not connected.
  [[nodiscard]] const std::vector<std::unique_ptr<polled_link>>& all() const { return links_; }
  [[nodiscard]] bool is_empty() const;
  /// True if the job is over and some agent that had connected is disconnected and has not received the message that
  /// the job is over.
  [[nodiscard]] bool some_are_away() const;

 private:
  core::result<void> hear(uint32_t machine, const message& m, int64_t now_ns);
  void end(uint32_t machine, const std::string& how, int64_t now_ns);
  void let_go(uint32_t machine, int64_t now_ns);
  void dismiss(uint32_t machine, job_over with, int64_t now_ns);

  const supervised_job& job_;
  job_order order_;
  supervision& decides_;
  std::function<void(int)> on_signal_;
  std::vector<std::unique_ptr<polled_link>> links_;
  /// [machine]: true if its agent has connected before; true if its agent has received the job's end
  std::vector<bool> came_, told_;
  std::optional<job_over> over_;
};

}  // namespace troupe::cluster
