// Runs the scripts of company.hpp on boards in shared memory: on one thread, where each member has a separate group as
// if it were a process, and in real processes.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <variant>

#include "fabric/shared/group.hpp"
#include "tests/fabric/company.hpp"
#include "tests/fabric/shared_vector.hpp"

namespace troupe::tests {

/// The shared memory of `members` members, filled with zeros.
struct shared_board {
  explicit shared_board(uint32_t members, uint32_t operations = fabric::operations_in_flight_max)
      : shape{members, operations}, memory(fabric::board::bytes_of(shape)) {}
  fabric::board_shape shape;
  shared_vector<std::byte> memory;
};

/// Backend for run_on_stage() with a separate group for each member, all on the calling thread.
class shared_stage {
 public:
  explicit shared_stage(uint32_t size) : world_(std::make_shared<world>(size)) {
    for (uint32_t rank = 0; rank < size; ++rank)
      groups_.push_back(fabric::shared_group::make(
          world_->board.memory, world_->board.shape, same_addresses(),
          [w = std::weak_ptr(world_)](uint32_t member) { w.lock()->mail.emplace_back(member, std::nullopt); }));
  }

  std::unique_ptr<fabric::communicator> join(uint32_t rank) {
    return groups_[rank]->join(rank, [w = world_, rank](uint64_t sequence) { w->mail.emplace_back(rank, sequence); });
  }

  /// Returns a random one of the pending wake-ups, after delivering the notifications that are drawn before it; returns
  /// nothing if none is pending.
  std::optional<std::pair<uint32_t, uint64_t>> next(auto& random) {
    auto& mail = world_->mail;
    while (!mail.empty()) {
      std::swap(mail[random() % mail.size()], mail.back());
      const auto [rank, sequence] = mail.back();
      mail.pop_back();
      if (sequence) return std::pair{rank, *sequence};
      groups_[rank]->look();
    }
    return std::nullopt;
  }

  [[nodiscard]] size_t under_way() const { return world_->mail.size(); }

 private:
  struct world {
    explicit world(uint32_t size) : board(size) {}
    shared_board board;
    // Pending wake-ups by member and sequence; an entry without a sequence is a notification from another process.
    std::vector<std::pair<uint32_t, std::optional<uint64_t>>> mail;
  };
  std::shared_ptr<world> world_;
  std::vector<std::shared_ptr<fabric::shared_group>> groups_;
};

struct shared_on_one_thread {
  static std::vector<ending> run(std::vector<part> parts, uint32_t seed = 1) {
    return run_on_one_thread<shared_stage>(std::move(parts), seed);
  }
};

/// Runs each member in a separate process. Each process reports its result through a pipe; a killed process reports
/// none.
class process_company {
 public:
  explicit process_company(uint32_t size) : board_(size) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      rings_.push_back(::eventfd(0, EFD_NONBLOCK));
      deaths_.push_back(::eventfd(0, EFD_NONBLOCK));
    }
  }
  process_company(const process_company&) = delete;
  process_company& operator=(const process_company&) = delete;
  ~process_company() {
    for (const int fd : rings_) ::close(fd);
    for (const int fd : deaths_) ::close(fd);
  }

  /// Forks a process for each part and returns how each ended, or nothing for a process that was killed. Each process
  /// calls `at_wake` before it handles a wake-up; `at_wake` may kill the process.
  std::vector<std::optional<ending>> run(std::vector<part> parts,
                                         const std::function<void(uint32_t rank, uint64_t)>& at_wake = {}) {
    const auto size = static_cast<uint32_t>(parts.size());
    std::vector<std::pair<pid_t, int>> children;
    for (uint32_t rank = 0; rank < size; ++rank) {
      std::array<int, 2> said{};
      if (::pipe(said.data()) != 0) throw std::bad_alloc();
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(said[0]);
        act(rank, std::move(parts[rank]), said[1], at_wake);
        ::_exit(0);
      }
      ::close(said[1]);
      children.emplace_back(child, said[0]);
    }
    std::vector<std::optional<ending>> out;
    for (const auto& [child, from] : children) {
      out.push_back(received(from));
      ::waitpid(child, nullptr, 0);
      // The test notifies the other processes of a death at once, as a supervisor does.
      if (!out.back())
        for (const int fd : deaths_) ::eventfd_write(fd, 1);
    }
    return out;
  }

 private:
  void act(uint32_t rank, part p, int say, const std::function<void(uint32_t, uint64_t)>& at_wake) {
    const auto group = fabric::shared_group::make(board_.memory, board_.shape, same_addresses(),
                                                  [this](uint32_t member) { ::eventfd_write(rings_[member], 1); });
    const auto mail = std::make_shared<std::deque<uint64_t>>();
    performer self(std::move(p), group->join(rank, [mail](uint64_t sequence) { mail->push_back(sequence); }));
    self.start();
    while (!self.over()) {
      if (!mail->empty()) {
        const uint64_t sequence = mail->front();
        mail->pop_front();
        if (at_wake) at_wake(rank, sequence);
        self.woken(sequence);
        continue;
      }
      std::array<pollfd, 2> waits{{{rings_[rank], POLLIN, 0}, {deaths_[rank], POLLIN, 0}}};
      if (::poll(waits.data(), waits.size(), 60'000) <= 0) self.stalled();
      eventfd_t count = 0;
      if (waits[1].revents != 0) self.give_up({core::error_kind::peer_lost, "a process was killed"});
      if (waits[0].revents != 0) {
        ::eventfd_read(rings_[rank], &count);
        group->look();
      }
    }
    std::string text(1, self.end() ? static_cast<char>(self.end()->kind) : '\0');
    if (self.end()) text += self.end()->text;
    if (::write(say, text.data(), text.size()) < 0) ::_exit(1);
  }

  static std::optional<ending> received(int from) {
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(from, part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<size_t>(got));
    ::close(from);
    if (text.empty()) return std::nullopt;
    if (text[0] == '\0') return ending{};
    return ending{core::error{static_cast<core::error_kind>(text[0]), text.substr(1)}};
  }

  shared_board board_;
  std::vector<int> rings_, deaths_;
};

struct shared_in_processes {
  static std::vector<ending> run(std::vector<part> parts, uint32_t = 1) {
    process_company all(static_cast<uint32_t>(parts.size()));
    std::vector<ending> out;
    for (const auto& e : all.run(std::move(parts)))
      out.push_back(e ? *e : ending{core::error{core::error_kind::bug, "a process ended without a word"}});
    return out;
  }
};

}  // namespace troupe::tests
