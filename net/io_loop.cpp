#include "net/io_loop.hpp"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class watched_descriptor final : public watched, public std::enable_shared_from_this<watched_descriptor> {
 public:
  watched_descriptor(asio::io_context& context, int number) : of_(context, number) {}

  [[nodiscard]] int number() const override { return number_of(of_); }
  void when_readable(callback then) override {
    wait(asio::posix::stream_descriptor::wait_read, read_, std::move(then));
  }
  void when_writable(callback then) override {
    wait(asio::posix::stream_descriptor::wait_write, write_, std::move(then));
  }
  void close() override {
    closed_ = true;
    read_.then = write_.then = nullptr;
    error_code ignored;
    of_.close(ignored);
  }

 private:
  struct waiting {
    callback then;
    bool is_under_way = false;
  };

  static int number_of(const asio::posix::stream_descriptor& of) {
    // const_cast is needed because native_handle() is not const, although it changes nothing.
    return const_cast<asio::posix::stream_descriptor&>(of).native_handle();
  }

  void wait(asio::posix::stream_descriptor::wait_type what, waiting& w, callback then) {
    if (closed_) return;
    w.then = std::move(then);
    if (std::exchange(w.is_under_way, true)) return;
    of_.async_wait(what, [self = shared_from_this(), &w](const error_code& e) {
      w.is_under_way = false;
      if (e == asio::error::operation_aborted || self->closed_ || !w.then) return;
      std::exchange(w.then, nullptr)();
    });
  }

  asio::posix::stream_descriptor of_;
  waiting read_, write_;
  bool closed_ = false;
};

class loop_timer final : public timer {
 public:
  explicit loop_timer(asio::io_context& context) : of_(context) {}
  ~loop_timer() override { ++*turn_; }
  void after(int64_t ns, callback then) override {
    const uint64_t turn = ++*turn_;
    of_.expires_after(std::chrono::nanoseconds(ns));
    of_.async_wait([now = turn_, turn, then = std::move(then)](const error_code& e) {
      if (!e && *now == turn) then();
    });
  }
  void cancel() override {
    ++*turn_;
    of_.cancel();
  }

 private:
  asio::steady_timer of_;
  std::shared_ptr<uint64_t> turn_ = std::make_shared<uint64_t>(0);
};

class asio_loop final : public io_loop {
 public:
  asio_loop() : context_(1), work_(asio::make_work_guard(context_)), names_(context_) {}
  ~asio_loop() override {
    asio_loop::stop();
    if (thread_.joinable()) thread_.join();  // not joined yet if stop() was called on the loop's thread
    // A connection whose last bytes are still being sent (graceful_close.hpp) and its waiting callbacks own each other
    // through shared pointers; close() drops the callbacks, so that the connection is freed.
    for (const auto& one : std::exchange(watched_, {}))
      if (const auto left = one.lock()) left->close();
  }

  void begin() {
    thread_ = std::thread([this] { context_.run(); });
  }

  void post(callback what) override { asio::post(context_, std::move(what)); }
  [[nodiscard]] bool is_own_thread() const override { return std::this_thread::get_id() == thread_.get_id(); }
  void stop() override {
    context_.stop();
    if (!is_own_thread() && thread_.joinable()) thread_.join();
  }

  std::shared_ptr<watched> watch(int number) override {
    auto out = std::make_shared<watched_descriptor>(context_, number);
    const std::lock_guard lock(mutex_);
    if (watched_.size() >= looked_through_at_) {
      std::erase_if(watched_, [](const auto& one) { return one.expired(); });
      looked_through_at_ = 2 * watched_.size() + 64;
    }
    watched_.push_back(out);
    return out;
  }
  std::unique_ptr<timer> make_timer() override { return std::make_unique<loop_timer>(context_); }

  void resolve(const std::string& host, uint16_t port,
               std::function<void(core::result<std::vector<address>>)> tell) override {
    using asio::ip::tcp;
    names_.async_resolve(host, fmt::to_string(port), tcp::resolver::numeric_service,
                         [host, tell = std::move(tell)](const error_code& e, const tcp::resolver::results_type& found) {
                           if (e == asio::error::operation_aborted) return;
                           if (e)
                             return tell(core::fail(core::error_kind::peer_lost,
                                                    "no address of the host '" + host + "': " + e.message()));
                           std::vector<address> out;
                           for (const auto& x : found)
                             out.push_back(address::of(x.endpoint().data(), x.endpoint().size()));
                           tell(std::move(out));
                         });
  }

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::ip::tcp::resolver names_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<watched>> watched_;  // descriptors that the loop waits for; some have expired
  size_t looked_through_at_ = 64;
  std::thread thread_;
};

}  // namespace

core::result<std::unique_ptr<io_loop>> io_loop::start() {
  try {
    auto out = std::make_unique<asio_loop>();
    out->begin();
    return out;
  } catch (const std::system_error& e) {
    return core::fail(core::error_kind::limit,
                      std::string("links to other machines: cannot start a thread: ") + e.what());
  } catch (const boost::system::system_error& e) {
    return core::fail(core::error_kind::limit,
                      std::string("links to other machines: cannot open the descriptors to wait with: ") + e.what());
  }
}

}  // namespace troupe::net
