#include "apps/agent/present_agents.hpp"

#include <utility>

#include "core/clock.hpp"

namespace troupe::apps {

class present_agents::watched_link final : public cluster::polled_link {
 public:
  watched_link(std::shared_ptr<present_agents> all, std::string host, uint64_t number,
               std::unique_ptr<cluster::polled_link> link)
      : all_(std::move(all)), host_(std::move(host)), number_(number), link_(std::move(link)) {}
  ~watched_link() override { all_->gone(host_, number_); }
  watched_link(const watched_link&) = delete;
  watched_link& operator=(const watched_link&) = delete;

  core::result<void> send(cluster::parcel p) override { return link_->send(std::move(p)); }
  core::result<std::vector<cluster::parcel>> receive() override {
    auto came = link_->receive();
    if (came && !came->empty()) all_->note_message(host_);
    return came;
  }
  [[nodiscard]] int number() const override { return link_->number(); }
  [[nodiscard]] bool has_waiting() const override { return link_->has_waiting(); }
  core::result<void> flush() override { return link_->flush(); }

 private:
  std::shared_ptr<present_agents> all_;
  std::string host_;
  uint64_t number_;
  std::unique_ptr<cluster::polled_link> link_;
};

bool present_agents::admit(const std::string& host, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const int64_t now = core::now_ns();
  const auto at = all_.find(host);
  if (at != all_.end() && at->second.id != id && now - at->second.last_message_ns < silence_ns_) return false;
  auto& p = all_[host];
  p.id = id;
  p.last_message_ns = now;
  return true;
}

std::unique_ptr<cluster::polled_link> present_agents::watch(const std::string& host,
                                                            std::unique_ptr<cluster::polled_link> link) {
  const std::scoped_lock lock(mutex_);
  const uint64_t number = ++all_[host].links;
  return std::make_unique<watched_link>(shared_from_this(), host, number, std::move(link));
}

void present_agents::note_message(const std::string& host) {
  const std::scoped_lock lock(mutex_);
  if (const auto at = all_.find(host); at != all_.end()) at->second.last_message_ns = core::now_ns();
}

// Removes the agent of `host` if `number` is the number of its newest link; does nothing if the agent has connected
// again since.
void present_agents::gone(const std::string& host, uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(host);
  if (at != all_.end() && at->second.links == number) all_.erase(at);
}

}  // namespace troupe::apps
