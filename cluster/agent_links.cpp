#include "cluster/agent_links.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cluster {

agent_links::agent_links(const supervised_job& job, job_order order, supervision& decides,
                         std::function<void(int)> on_signal)
    : job_(job),
      order_(std::move(order)),
      decides_(decides),
      on_signal_(std::move(on_signal)),
      links_(std::max<size_t>(job.hosts.size(), 1)),
      came_(links_.size()),
      told_(links_.size()) {}

bool agent_links::is_empty() const {
  return std::ranges::all_of(links_, [](const auto& a) { return a == nullptr; });
}

bool agent_links::some_are_away() const {
  for (size_t m = 1; m < links_.size(); ++m)
    if (came_[m] && !told_[m]) return true;
  return false;
}

void agent_links::welcome(const std::string& host, std::unique_ptr<polled_link> link, int64_t now_ns) {
  const auto at = std::ranges::find(job_.hosts, host);
  const auto machine = static_cast<uint32_t>(at - job_.hosts.begin());
  if (at == job_.hosts.end() || machine == 0) return;
  if (links_[machine] != nullptr) end(machine, "another agent of the host has joined", now_ns);
  links_[machine] = std::move(link);
  came_[machine] = true;
  if (over_) {
    told_[machine] = true;
    return tell(machine, *over_, now_ns);
  }
  job_order order = order_;
  order.machine = machine;
  order.lost_after_ns = job_.lost_after_ns;
  for (uint32_t p = 0; p < job_.places(); ++p)
    if (job_.machine_of(p) == machine) order.places.push_back(p);
  tell(machine, std::move(order), now_ns);
  decides_.joined(machine, now_ns);
}

void agent_links::tell(uint32_t machine, message m, int64_t now_ns) {
  auto& agent = links_[machine];
  if (agent == nullptr) return;
  if (const auto sent = agent->send({std::move(m), {}}); !sent) end(machine, sent.error().text, now_ns);
}

void agent_links::tell_process(uint32_t place, const parcel& p, int64_t now_ns) {
  tell(job_.machine_of(place), passed{place, encode(p.what)}, now_ns);
}

void agent_links::end_job(int32_t code, const std::string& why, int64_t now_ns) {
  over_ = job_over{code, why};
  for (uint32_t m = 1; m < links_.size(); ++m) {
    told_[m] = links_[m] != nullptr;
    tell(m, *over_, now_ns);
  }
}

void agent_links::end(uint32_t machine, const std::string& how, int64_t now_ns) {
  links_[machine].reset();
  decides_.parted(machine, "was lost: the link to its host's agent ended: " + how, now_ns);
}

void agent_links::hear(uint32_t machine, int64_t now_ns) {
  auto came = links_[machine]->receive();
  if (!came) return end(machine, came.error().text, now_ns);
  for (auto& p : *came) {
    decides_.note_agent(machine, now_ns);
    if (auto ok = hear(machine, p.what, now_ns); !ok) return end(machine, ok.error().text, now_ns);
  }
}

core::result<void> agent_links::hear(uint32_t machine, const message& m, int64_t now_ns) {
  const auto is_of_it = [&](uint32_t place) { return place < job_.places() && job_.machine_of(place) == machine; };
  if (const auto* x = std::get_if<passed>(&m)) {
    TROUPE_ASSIGN(auto inner, decode(x->what));
    if (is_of_it(x->place)) decides_.hear(x->place, {std::move(inner), {}}, now_ns);
  } else if (const auto* x = std::get_if<place_ended>(&m)) {
    if (is_of_it(x->place)) decides_.closed(x->place, x->how, now_ns);
  } else if (const auto* x = std::get_if<signalled>(&m)) {
    decides_.is_resting(machine) ? let_go(machine, now_ns) : on_signal_(x->signal);
  }
  return {};
}

// Tells the agent of a replaced machine to end; the job and its other agents continue.
void agent_links::let_go(uint32_t machine, int64_t now_ns) {
  dismiss(machine, job_over{0}, now_ns);
  decides_.let_go(machine, "was let go: its host was replaced, and its agent was told to end", now_ns);
}

void agent_links::leave_out(const leave_out_agent& x, int64_t now_ns) {
  dismiss(x.machine, job_over{x.code, x.why, true}, now_ns);
}

void agent_links::dismiss(uint32_t machine, job_over with, int64_t now_ns) {
  tell(machine, std::move(with), now_ns);
  links_[machine].reset();
  came_[machine] = false;  // the end of the job does not wait for this agent
}

}  // namespace troupe::cluster
