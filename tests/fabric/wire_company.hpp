// Runs the scripts of company.hpp on several machines: the groups of all processes on one thread, in an order of events
// that depends on a seed, or each member on a separate thread. Links are fakes; the memory of every machine is memory
// of this process.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>

#include "fabric/wire/group.hpp"
#include "tests/fabric/company.hpp"
#include "tests/fabric/shared_vector.hpp"
#include "tests/fakes/wires.hpp"

namespace troupe::tests {

/// Layout in which each member has a separate machine with one process.
struct a_machine_each {
  static std::vector<fabric::home> of(uint32_t size) {
    std::vector<fabric::home> out;
    for (uint32_t m = 0; m < size; ++m) out.push_back({m, m});
    return out;
  }
};
/// Layout of two machines with one process each.
struct two_machines {
  static std::vector<fabric::home> of(uint32_t size) {
    std::vector<fabric::home> out;
    for (uint32_t m = 0; m < size; ++m) out.push_back({m < (size + 1) / 2 ? 7U : 3U, m < (size + 1) / 2 ? 1U : 0U});
    return out;
  }
};
/// Layout of two machines with a separate process for each member.
struct two_machines_of_processes {
  static std::vector<fabric::home> of(uint32_t size) {
    std::vector<fabric::home> out;
    for (uint32_t m = 0; m < size; ++m) out.push_back({m < size / 2 ? 0U : 1U, m});
    return out;
  }
};
/// Layout of machines with 1, 2, 1, 3, 1, 2 ... members; some machines have two processes.
struct uneven_machines {
  static std::vector<fabric::home> of(uint32_t size) {
    std::vector<fabric::home> out;
    constexpr uint32_t counts[] = {1, 2, 1, 3};
    for (uint32_t machine = 0, place = 0; out.size() < size; ++machine, ++place)
      for (uint32_t i = 0; i < counts[machine % 4] && out.size() < size; ++i)
        out.push_back({machine, i > 0 && (machine + i) % 3 == 0 ? ++place : place});
    return out;
  }
};

/// Returns limits so small that sums of a few thousand elements need many chunks.
inline fabric::wire_limits small_limits() {
  return {.incoming_bytes = 48U << 10,
          .outgoing_bytes = 12U << 10,
          .result_bytes = 12U << 10,
          .transfer_bytes = 10'000,
          .sum_elements = 700};
}

using movers_by_place = std::map<uint32_t, std::shared_ptr<fabric::byte_mover>>;

/// The machines and processes of one communicator, connected by any links.
struct wire_world {
  wire_world(const std::vector<fabric::home>& of_members, const fabric::wire_limits& limits, movers_by_place links,
             uint32_t operations = 512)
      : where(fabric::homes::make(of_members).value()), movers(std::move(links)) {
    const fabric::board_shape shape{where.size(), operations};
    for (uint32_t k = 0; k < where.machines(); ++k) records.emplace_back(fabric::machine_record::bytes_of(shape));
    for (uint32_t m = 0; m < where.size(); ++m) {
      const uint32_t place = where.place_of(m);
      if (groups.contains(place)) continue;
      const auto& mover = movers.at(place);
      groups[place] = fabric::wire_group::make({.memory = records[where.machine_of(m)],
                                                .shape = shape,
                                                .where = where,
                                                .place = place,
                                                .communicator = 5,
                                                .space = same_addresses(),
                                                .ring = [this](uint32_t member) { ring(where.place_of(member)); },
                                                .mover = mover,
                                                .notes = notes.emplace_back(fabric::note_switch::make(*mover)),
                                                .limits = limits})
                          .value();
    }
  }

  void ring(uint32_t place) {
    const std::lock_guard lock(mutex);
    rings.push_back(place);
  }
  std::optional<uint32_t> next_ring() {
    const std::lock_guard lock(mutex);
    if (rings.empty()) return std::nullopt;
    const uint32_t out = rings.front();
    rings.pop_front();
    return out;
  }
  /// Returns the number of bytes that each machine has received from others.
  [[nodiscard]] std::vector<uint64_t> received() const {
    std::vector<uint64_t> out(where.machines());
    std::set<uint32_t> counted;
    for (uint32_t m = 0; m < where.size(); ++m) {
      if (!counted.insert(where.place_of(m)).second) continue;
      for (const auto& [place, mover] : movers)
        out[where.machine_of(m)] += movers.at(where.place_of(m))->moved(place).received;
    }
    return out;
  }

  fabric::homes where;
  std::vector<shared_vector<std::byte>> records;  // shared memory of each machine, by machine index
  movers_by_place movers;
  std::vector<std::shared_ptr<fabric::note_switch>> notes;
  std::map<uint32_t, std::shared_ptr<fabric::wire_group>> groups;  // group of each process, by process index
  std::mutex mutex;
  std::deque<uint32_t> rings;  // processes with a pending notification for a member
};

/// Fake links between the processes of all members.
struct fake_links {
  fake_links(const std::vector<fabric::home>& of_members, uint64_t seed)
      : wires(std::make_shared<fabric::modelled_wires>(seed)) {
    for (const auto& h : of_members) links[h.place] = wires->at(h.place);
  }
  std::shared_ptr<fabric::modelled_wires> wires;
  movers_by_place links;
};

/// A wire_world whose links are fake.
struct fake_world : fake_links, wire_world {
  fake_world(const std::vector<fabric::home>& of_members, const fabric::wire_limits& limits, uint64_t seed,
             uint32_t operations = 512)
      : fake_links(of_members, seed), wire_world(of_members, limits, links, operations) {}
};

/// Backend for run_on_stage() with a group for each process, all on the calling thread.
class wire_stage {
 public:
  wire_stage(const std::vector<fabric::home>& of_members, const fabric::wire_limits& limits, uint64_t seed)
      : world_(of_members, limits, seed) {}

  std::unique_ptr<fabric::communicator> join(uint32_t rank) {
    return world_.groups.at(world_.where.place_of(rank))->join(rank, [mail = mail_, rank](uint64_t sequence) {
      mail->emplace_back(rank, sequence);
    });
  }

  /// Returns a random one of the pending wake-ups, after carrying out the notifications and transfers that are drawn
  /// before it; returns nothing if none is pending.
  std::optional<std::pair<uint32_t, uint64_t>> next(auto& random) {
    while (true) {
      if (steps_++ == lost_at_) lose();
      const size_t wakes = mail_->size(), rings = world_.rings.size(), moves = world_.wires->under_way();
      if (wakes + rings + moves == 0) return std::nullopt;
      const size_t drawn = random() % (wakes + rings + moves);
      if (drawn < wakes) {
        std::swap((*mail_)[drawn], mail_->back());
        const auto out = mail_->back();
        mail_->pop_back();
        return out;
      }
      if (drawn < wakes + rings)
        world_.groups.at(*world_.next_ring())->look();
      else
        world_.wires->step();
    }
  }

  [[nodiscard]] size_t under_way() const { return mail_->size() + world_.rings.size() + world_.wires->under_way(); }
  [[nodiscard]] fake_world& world() { return world_; }

  /// Loses process `place` before event number `steps`, counted from 0; all other processes are notified, as by a
  /// supervisor.
  void lose_at(uint64_t steps, uint32_t place) {
    lost_at_ = steps;
    lost_ = place;
  }

 private:
  void lose() {
    const core::error why{core::error_kind::peer_lost, fmt::format("process {} was lost", lost_)};
    world_.wires->lose(lost_, why);
    for (const auto& [place, group] : world_.groups) group->end(why);
  }

  uint64_t steps_ = 0, lost_at_ = ~uint64_t{0};
  uint32_t lost_ = 0;
  std::shared_ptr<std::vector<std::pair<uint32_t, uint64_t>>> mail_ =
      std::make_shared<std::vector<std::pair<uint32_t, uint64_t>>>();
  fake_world world_;
};

template <class Machines>
class stage_of : public wire_stage {
 public:
  explicit stage_of(uint32_t size) : wire_stage(Machines::of(size), small_limits(), size) {}
};

template <class Machines>
struct wire_on_one_thread {
  static std::vector<ending> run(std::vector<part> parts, uint32_t seed = 1) {
    return run_on_one_thread<stage_of<Machines>>(std::move(parts), seed);
  }
};

/// Runs each member on a separate thread, and all notifications and links on one more thread, which repeatedly calls
/// `step`; `step` returns true if it did any work.
inline std::vector<ending> run_on_threads(wire_world& world, std::vector<part> parts,
                                          const std::function<bool()>& step) {
  std::atomic<bool> over = false;
  std::thread links([&] {
    while (!over) {
      bool busy = step();
      while (const auto place = world.next_ring()) {
        world.groups.at(*place)->look();
        busy = true;
      }
      if (!busy) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  std::vector<ending> out(parts.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < parts.size(); ++rank)
    threads.emplace_back([&, rank] {
      const auto box = std::make_shared<mailbox>();
      const auto& group = world.groups.at(world.where.place_of(rank));
      performer self(std::move(parts[rank]), group->join(rank, [box](uint64_t sequence) { box->push(sequence); }));
      self.start();
      while (!self.over()) {
        if (const auto sequence = box->pop())
          self.woken(*sequence);
        else
          self.stalled();
      }
      out[rank] = self.end();
    });
  for (auto& t : threads) t.join();
  over = true;
  links.join();
  return out;
}

template <class Machines>
struct wire_on_threads {
  static std::vector<ending> run(std::vector<part> parts, uint32_t seed = 1) {
    fake_world world(Machines::of(static_cast<uint32_t>(parts.size())), small_limits(), seed);
    return run_on_threads(world, std::move(parts), [&] { return world.wires->step(); });
  }
};

}  // namespace troupe::tests
