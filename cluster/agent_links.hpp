// The agents of other machines, as the first one has them: a link to each that is there. Owns the links and what is
// said over them; what it means that an agent comes, goes or is silent is supervision.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/supervision.hpp"

namespace troupe::cluster {

class agent_links {  ///< of one job; one thread
 public:
  /// `order`: what each agent is told first; its machine and places are filled in. `on_signal`: one of the system that
  /// came to an agent whose host was not replaced.
  agent_links(const supervised_job& job, job_order order, supervision& decides, std::function<void(int)> on_signal);

  /// An agent has come. One of a host that the job has not is sent away; where the job is over it is told so.
  void welcome(const std::string& host, std::unique_ptr<polled_link> link, int64_t now_ns);
  void tell(uint32_t machine, message m, int64_t now_ns);
  void tell_process(uint32_t place, const parcel& p, int64_t now_ns);
  /// What has come from it.
  void hear(uint32_t machine, int64_t now_ns);
  void drop(uint32_t machine) { links_[machine].reset(); }
  /// Tells it so, and lets it go.
  void leave_out(const leave_out_agent& x, int64_t now_ns);
  /// Tells all that are there.
  void end_job(int32_t code, const std::string& why, int64_t now_ns);

  /// [machine]: null: its agent is not there.
  [[nodiscard]] const std::vector<std::unique_ptr<polled_link>>& all() const { return links_; }
  [[nodiscard]] bool is_empty() const;
  /// Once the job is over: whether some that had come are away and have not been told.
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
  std::vector<bool> came_, told_;  ///< [machine]: ever; that the job is over
  std::optional<job_over> over_;
};

}  // namespace troupe::cluster
