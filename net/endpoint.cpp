#include "net/endpoint.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <utility>

namespace troupe::net {
namespace {

/// Largest number of accepted links that wait until accepted() returns them; further links are closed.
constexpr size_t accepted_max = 4096;

}  // namespace

core::result<std::unique_ptr<endpoint>> endpoint::open(endpoint_setup setup) {
  TROUPE_ASSIGN(auto loop, io_loop::start());
  return std::unique_ptr<endpoint>(new endpoint(std::move(setup), std::make_shared<links_room>(std::move(loop))));
}

endpoint::endpoint(endpoint_setup setup, std::shared_ptr<links_room> room)
    : setup_(std::move(setup)),
      room_(std::move(room)),
      event_(cluster::own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      connector_(std::make_unique<connector>(room_->loop(), connector_options{})) {}

endpoint::~endpoint() {
  // The listening socket must be closed on the loop's thread. Established links continue to work without it.
  const auto closed = std::make_shared<std::promise<void>>();
  room_->loop().post([this, closed] {
    connector_->close();
    closed->set_value();
  });
  closed->get_future().wait();
}

core::result<uint16_t> endpoint::listen(const std::string& address, uint16_t port) {
  return connector_->listen(
      address, port, setup_.me.options(tls_side::accepts),
      [this] { return std::make_unique<link_hello>(setup_.me, setup_.admit); },
      [this](core::result<connection> c, std::unique_ptr<first_words> words) { hear(std::move(c), std::move(words)); });
}

void endpoint::hear(core::result<connection> c, std::unique_ptr<first_words> words) {
  if (!c) {
    if (setup_.on_refused) setup_.on_refused(c.error().in("a connection was refused"));
    return;
  }
  const auto& said = static_cast<const link_hello&>(*words);
  const std::lock_guard lock(mutex_);
  if (accepted_.size() >= accepted_max) return c->socket->close();
  accepted_.push_back(std::make_unique<tls_link>(room_, std::move(*c), said.name(), said.introduction()));
  const uint64_t one = 1;
  (void)!::write(event_->number(), &one, sizeof one);
}

std::vector<std::unique_ptr<tls_link>> endpoint::accepted() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  (void)!::read(event_->number(), &count, sizeof count);
  return std::exchange(accepted_, {});
}

core::result<std::unique_ptr<tls_link>> endpoint::connect(const std::string& host, uint16_t port,
                                                          const std::string& wanted, const std::string& introduction,
                                                          int64_t within_ns) {
  if (introduction.size() > introduction_bytes_max)
    return core::fail(core::error_kind::bad_input, fmt::format("an introduction: wanted at most {} bytes, got {}",
                                                               introduction_bytes_max, introduction.size()));
  const auto done = std::make_shared<std::promise<core::result<std::unique_ptr<tls_link>>>>();
  room_->loop().post([=, this, &host, &wanted, &introduction] {
    connector_->connect(
        host, port, setup_.me.options(tls_side::connects),
        std::make_unique<link_hello>(setup_.me, wanted, introduction), within_ns,
        [this, done](core::result<connection> c, std::unique_ptr<first_words> words) {
          if (!c) return done->set_value(core::fail(c.error()));
          const auto& said = static_cast<const link_hello&>(*words);
          done->set_value(std::make_unique<tls_link>(room_, std::move(*c), said.name(), said.introduction()));
        });
  });
  return done->get_future().get();
}

}  // namespace troupe::net
