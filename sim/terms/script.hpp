// Writes the behaviour of a simulated process as sequential code: a coroutine that waits for conditions. Owns the order
// of its steps; the simulated world decides when it evaluates the conditions.
#pragma once

#include <coroutine>
#include <functional>
#include <utility>

#include "core/error.hpp"

namespace troupe::sim {

class script {  ///< a coroutine that runs when it is awaited or by start(); its destructor destroys it at any point
 public:
  struct promise_type {
    core::result<void> value;
    std::coroutine_handle<> then;

    script get_return_object() { return script(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct hand_over {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> me) noexcept {
          const auto next = me.promise().then;
          if (next) return next;
          return std::noop_coroutine();
        }
        void await_resume() noexcept {}
      };
      return hand_over{};
    }
    void return_value(core::result<void> v) { value = std::move(v); }
    void unhandled_exception() { throw; }  // whoever resumed the script receives the exception
  };

  script() = default;
  script(script&& other) noexcept : me_(std::exchange(other.me_, {})) {}
  script& operator=(script&& other) noexcept {
    std::swap(me_, other.me_);
    return *this;
  }
  ~script() {
    if (me_) me_.destroy();
  }

  void start() { me_.resume(); }
  [[nodiscard]] bool is_done() const { return me_ && me_.done(); }
  [[nodiscard]] const core::result<void>& value() const { return me_.promise().value; }

  // Awaiting a script runs it to its end.
  [[nodiscard]] bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> by) {
    me_.promise().then = by;
    return me_;
  }
  core::result<void> await_resume() { return me_.promise().value; }

 private:
  explicit script(std::coroutine_handle<promise_type> me) : me_(me) {}
  std::coroutine_handle<promise_type> me_;
};

/// Stores the condition that the scripts of a process wait for; only one of its scripts waits at a time.
class waiting_room {
 public:
  auto until(std::function<bool()> holds) {
    struct wait {
      waiting_room* room;
      std::function<bool()> holds;
      bool await_ready() { return holds(); }
      void await_suspend(std::coroutine_handle<> who) {
        room->holds_ = std::move(holds);
        room->who_ = who;
      }
      void await_resume() {}
    };
    return wait{this, std::move(holds)};
  }
  /// Resumes the waiting script while its condition is true.
  void go_on() {
    while (who_ && holds_()) std::exchange(who_, {}).resume();
  }

 private:
  std::function<bool()> holds_;
  std::coroutine_handle<> who_;
};

}  // namespace troupe::sim
