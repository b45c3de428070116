// Tests that every operation computes and moves the correct values, on every backend.
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <deque>

#include "tests/crash/wanted_cases.hpp"
#include "tests/fabric/company.hpp"
#include "tests/fabric/operands.hpp"
#include "tests/fabric/shared_company.hpp"
#include "tests/fabric/wire_company.hpp"

BOOST_AUTO_TEST_SUITE(values)

namespace {

using namespace troupe;
using namespace troupe::tests;
using core::dtype;
using fabric::operation;
using backends = boost::mpl::list<in_process_on_one_thread, modelled, in_process_on_threads, shared_on_one_thread,
                                  shared_in_processes, wire_on_one_thread<a_machine_each>,
                                  wire_on_one_thread<two_machines>, wire_on_one_thread<two_machines_of_processes>,
                                  wire_on_one_thread<uneven_machines>, wire_on_threads<uneven_machines>>;

constexpr dtype floats[] = {dtype::f32, dtype::bf16, dtype::f16, dtype::f64};

/// A list of operations on one communicator, with the memory of all of them.
class programme {
 public:
  explicit programme(uint32_t size) : size_(size) {}

  void add(scene s) {
    s.size = size_;
    const auto sequence = operands_.size();
    operands_.emplace_back(std::move(s), sequence, static_cast<uint32_t>(sequence) + 100);
  }

  template <class Backend>
  void run_and_check(size_t window, uint32_t seed = 1) {
    std::vector<part> parts(size_);
    for (uint32_t rank = 0; rank < size_; ++rank) {
      parts[rank].window = window;
      for (operands& o : operands_) {
        const auto r = o.request(rank);
        const auto sound = fabric::check_memory(r, rank);
        BOOST_REQUIRE_MESSAGE(sound.has_value(), (sound ? "" : sound.error().text));
        parts[rank].requests.push_back(r);
      }
    }
    for (const ending& e : Backend::run(std::move(parts), seed)) BOOST_TEST(!e.has_value(), (e ? e->text : ""));
    for (const operands& o : operands_) o.check();
  }

  [[nodiscard]] uint32_t size() const { return size_; }

 private:
  uint32_t size_;
  std::deque<operands> operands_;
};

scene scene_of(operation op, dtype input, dtype communication, dtype output) {
  scene s;
  s.request.op = op;
  s.request.input_type = input;
  s.request.communication = communication;
  s.request.output_type = output;
  return s;
}

/// Adds one operation of each kind, with `count` ragged pieces, both in place and into separate memory.
void add_one_of_each(programme& all, size_t count, uint64_t most, std::mt19937& random, uint32_t idle = ~0U) {
  for (const operation op : {operation::all_gather, operation::broadcast, operation::barrier, operation::send_receive,
                             operation::reduce_scatter, operation::all_reduce})
    for (const bool in_place : {false, true}) {
      if (op == operation::send_receive && (all.size() != 2 || in_place)) continue;
      scene s = scene_of(op, dtype::f32, dtype::f32, dtype::f32);
      s.in_place = in_place;
      if (op != operation::barrier) s.pieces = ragged_pieces(op, all.size(), in_place, count, most, random, idle);
      all.add(std::move(s));
    }
}

/// Adds an all-to-all of `count` elements for each member. Inputs begin at element 5; outputs have gaps between them.
void add_all_to_all(programme& all, uint64_t count) {
  scene s = scene_of(operation::all_to_all, dtype::u8, dtype::u8, dtype::u8);
  for (uint32_t owner = 0; owner < all.size(); ++owner) s.pieces.push_back({owner, 5, 2 + owner * (count + 3), count});
  all.add(std::move(s));
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_operation_moves_ragged_pieces, backend, backends) {
  std::mt19937 random(7);
  for (uint32_t size = 1; size <= 4; ++size) {
    programme all(size);
    for (const size_t count : {0, 1, 3, 40}) {
      add_one_of_each(all, count, 60, random);
      add_all_to_all(all, count);
    }
    all.run_and_check<backend>(1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(operations_larger_than_a_chunk_are_shared_by_the_members, backend, backends) {
  std::mt19937 random(8);
  for (uint32_t size = 1; size <= 4; ++size) {
    programme all(size);
    add_one_of_each(all, 4, 60'000, random);
    all.run_and_check<backend>(2);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_member_may_own_nothing, backend, backends) {
  std::mt19937 random(9);
  for (uint32_t size = 2; size <= 4; ++size)
    for (uint32_t idle = 0; idle < size; ++idle) {
      programme all(size);
      add_one_of_each(all, 6, 30, random, idle);
      all.run_and_check<backend>(1);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(reductions_take_every_floating_dtype_in_every_role, backend, backends) {
  std::mt19937 random(10);
  for (const uint32_t size : {1U, 3U}) {
    programme all(size);
    for (const operation op : {operation::reduce_scatter, operation::all_reduce})
      for (const dtype input : floats)
        for (const dtype communication : floats)
          for (const dtype output : floats)
            for (const bool accumulate : {false, true}) {
              scene s = scene_of(op, input, communication, output);
              s.request.accumulate = accumulate;
              s.request.input_scale = accumulate ? 0.3F : 1.0F;
              s.pieces = ragged_pieces(op, size, false, 3, 40, random);
              all.add(std::move(s));
            }
    all.run_and_check<backend>(3);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(reductions_in_place_take_every_floating_dtype, backend, backends) {
  std::mt19937 random(11);
  programme all(3);
  for (const operation op : {operation::reduce_scatter, operation::all_reduce})
    for (const dtype type : floats)
      for (const dtype communication : floats) {
        scene s = scene_of(op, type, communication, type);
        s.in_place = true;
        s.pieces = ragged_pieces(op, 3, true, 5, 40, random);
        all.add(std::move(s));
      }
  all.run_and_check<backend>(3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_owner_of_a_shared_sum_gets_it, backend, backends) {
  // The modelled fabric moves the bytes of small operations only.
  constexpr uint64_t large = std::is_same_v<backend, modelled> ? 10'000 : 200'000;
  std::mt19937 random(15);
  const std::pair<uint32_t, uint32_t> groups[] = {{2, 1}, {4, 2}, {4, 1}, {6, 3}, {6, 2}, {3, 3}};
  const std::pair<bool, bool> forms[] = {{false, false}, {false, true}, {true, false}};  // in place, accumulate
  const bool every_large_sum = wanted_cases("TROUPE_CASES", 0) > 0;
  for (size_t g = 0; g < std::size(groups); ++g) {
    const auto [size, group] = groups[g];
    programme all(size);
    for (size_t f = 0; f < std::size(forms); ++f)
      for (const uint64_t most : {uint64_t{40}, uint64_t{3'000}, large}) {
        // Each group computes one of its three large sums; `make soak` computes all of them.
        if (most == large && !every_large_sum && f != g % std::size(forms)) continue;
        const auto [in_place, accumulate] = forms[f];
        scene s = scene_of(operation::reduce_scatter, dtype::f32, dtype::bf16, dtype::f32);
        s.in_place = in_place;
        s.request.accumulate = accumulate;
        s.pieces = pieces_of_replicas(size, group, in_place, 5, most, random);
        all.add(std::move(s));
      }
    all.run_and_check<backend>(2);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gathers_take_every_dtype, backend, backends) {
  std::mt19937 random(12);
  programme all(2);
  for (const operation op : {operation::all_gather, operation::broadcast, operation::send_receive})
    for (const dtype type : {dtype::f64, dtype::f32, dtype::bf16, dtype::f16, dtype::i64, dtype::i32, dtype::i16,
                             dtype::i8, dtype::u8, dtype::boolean}) {
      scene s = scene_of(op, type, dtype::f32, type);
      s.pieces = ragged_pieces(op, 2, false, 5, 40, random);
      all.add(std::move(s));
    }
  all.run_and_check<backend>(4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(many_operations_are_in_flight_at_once, backend, backends) {
  std::mt19937 random(13);
  for (const size_t window : {2, 7, 64}) {
    programme all(3);
    for (int i = 0; i < 20; ++i) add_one_of_each(all, 3, 50, random);
    add_one_of_each(all, 3, 30'000, random);
    all.run_and_check<backend>(window, static_cast<uint32_t>(window));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(contributions_are_added_in_rank_order, backend, backends) {
  // The order of sums is visible in fp32: (1e8 + -1e8) + 1 is 1, but 1e8 + (-1e8 + 1) is 0, and so is every order that
  // adds 1 earlier.
  for (const uint64_t count : {uint64_t{5}, uint64_t{50'000}})
    for (const uint32_t last_to_be_added : {0U, 1U, 2U}) {
      BOOST_TEST_INFO_SCOPE("last to be added " << last_to_be_added);
      std::vector<shared_vector<float>> memory(3, shared_vector<float>(count, 1.0F));
      memory[(last_to_be_added + 1) % 3].assign(count, 1e8F);
      memory[(last_to_be_added + 2) % 3].assign(count, -1e8F);
      const std::vector<fabric::piece> pieces{{0, 0, 0, count / 2}, {2, count / 2, count / 2, count - count / 2}};
      std::vector<part> parts(3);
      for (uint32_t rank = 0; rank < 3; ++rank) {
        fabric::request r;
        r.op = operation::all_reduce;
        r.pieces = pieces;
        r.input = reinterpret_cast<const std::byte*>(memory[rank].data());
        r.output = reinterpret_cast<std::byte*>(memory[rank].data());
        parts[rank].requests = {r};
      }
      for (const ending& e : backend::run(std::move(parts))) BOOST_TEST(!e.has_value());
      const float wanted = last_to_be_added == 2 ? 1.0F : 0.0F;
      for (const auto& m : memory) BOOST_TEST((m == shared_vector<float>(count, wanted)));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_order_of_arrival_changes_no_bit, backend, backends) {
  std::mt19937 random(14);
  programme fresh(4);
  add_one_of_each(fresh, 5, 40, random);
  add_one_of_each(fresh, 3, 9'000, random);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    programme all = fresh;
    all.run_and_check<backend>(1 + seed % 5, seed);
  }
}

BOOST_AUTO_TEST_SUITE_END()
