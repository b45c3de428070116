#include "actors/memory/file_port.hpp"

#include <utility>

namespace troupe::actors {
namespace {

class file_port final : public swap_port {
 public:
  file_port(std::shared_ptr<storage::swap_file> file, std::shared_ptr<storage::event_watch> watch,
            std::unique_ptr<storage::swap_queue> queue)
      : file_(std::move(file)), watch_(std::move(watch)), queue_(std::move(queue)) {}
  ~file_port() override { watch_->remove(queue_->event_descriptor()); }
  file_port(const file_port&) = delete;
  file_port& operator=(const file_port&) = delete;

  core::result<void> submit(const swap_order& order) override {
    storage::swap_request request{.kind = order.kind, .parts = {}, .token = order.token};
    for (const auto& part : order.parts) request.parts.push_back({file_, part.offset, part.window});
    return queue_->submit(std::move(request));
  }

  void look(std::vector<storage::swap_completion>& over) override {
    while (queue_->poll(over) > 0) {
    }
    watch_->resume(queue_->event_descriptor());
  }

  void stop(std::vector<storage::swap_completion>& over) override {
    queue_->cancel_all();
    queue_->drain(over);
  }

 private:
  std::shared_ptr<storage::swap_file> file_;
  std::shared_ptr<storage::event_watch> watch_;
  std::unique_ptr<storage::swap_queue> queue_;  // last member, so destroyed first: it waits for requests in flight
};

}  // namespace

swap_opener through_file(std::shared_ptr<storage::swap_file> file, file_port_setup setup) {
  return [file = std::move(file), setup = std::move(setup)](
             const std::vector<std::span<std::byte>>& windows) -> core::result<std::unique_ptr<swap_port>> {
    auto options = setup.queue;
    options.pools = windows;
    TROUPE_ASSIGN(auto queue, storage::swap_queue::open(options));
    if (setup.warn)
      for (const auto& line : queue->remarks()) setup.warn(line);
    TROUPE_TRY(setup.watch->add(queue->event_descriptor(), setup.wake));
    return std::make_unique<file_port>(file, setup.watch, std::move(queue));
  };
}

}  // namespace troupe::actors
