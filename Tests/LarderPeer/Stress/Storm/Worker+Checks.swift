// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization

// THE CHECKS OF A STORM
//
// Every read of every role has the same rules. The oracle's words are loaded before the read
// (`Expectation`); the value that is returned
//
//     belongs to its key, in every byte that is checked
//     is at least as new as the newest acknowledged write
//     is not newer than the newest issued write
//     has not expired before the read began
//
// and it is missing only if nothing was acknowledged, if a removal was issued that is at least as
// new as the newest acknowledged write, or if the key's region permits it.

/// A stored value that contains its key and its position in the order of the key's writes.
protocol OracleValue {
  var sequence: UInt64 { get }
  /// Milliseconds of the store's clock; zero without a deadline.
  var deadline: Int64 { get }
  /// Returns whether the value was written for `key`.
  func isOwn(_ key: Int) -> Bool
  /// Returns whether every byte was written for `key`.
  func isWhole(_ key: Int) -> Bool
}

extension OracleValue {
  var deadline: Int64 { 0 }
  func isOwn(_ key: Int) -> Bool { true }
  func isWhole(_ key: Int) -> Bool { isOwn(key) }
}

/// A sequence number of a value whose bytes were checked already.
struct BareSequence: OracleValue {
  let sequence: UInt64
  init?(_ sequence: UInt64?) {
    guard let sequence else { return nil }
    self.sequence = sequence
  }
}

extension Worker {
  @inline(__always)
  func expectation(_ region: OracleRegion, _ key: Int) -> Expectation {
    var expectation = Expectation(acknowledged: board[region, key, .acknowledged])
    if region.permitted.contains(.expired) {
      expectation.deadline = board[region, key, .deadline]
      expectation.time = now
    }
    return expectation
  }

  /// Reads a key and judges the result.
  @discardableResult @inline(__always)
  func check<Value: OracleValue>(
    _ key: Int, of region: OracleRegion, everyByte: Bool = true, _ read: () throws -> Value?
  ) rethrows -> Value? {
    let before = expectation(region, key)
    let value = try read()
    judge(value, key, of: region, before, everyByte: everyByte)
    if region.isConfirmedByReads, let value, value.sequence > before.acknowledged {
      board.raise(region, key, .acknowledged, to: value.sequence)
    }
    return value
  }

  @inline(__always)
  func judge<Value: OracleValue>(
    _ value: Value?, _ key: Int, of region: OracleRegion, _ before: Expectation,
    everyByte: Bool = true
  ) {
    guard let value else {
      if before.acknowledged > 0 { judgeAbsence(key, of: region, before) }
      return
    }
    if !value.isOwn(key) { violation("\(region.name) \(key) has another key's value: \(value)") }
    if everyByte, !value.isWhole(key) { violation("\(region.name) \(key) is torn") }
    judge(value.sequence, key, of: region, before.acknowledged)
    if value.deadline != 0, value.deadline <= before.time {
      violation("\(region.name) \(key) read at \(before.time), it expired at \(value.deadline)")
    }
  }

  /// Judges a sequence number, or the value of a counter.
  @inline(__always)
  func judge(_ sequence: UInt64, _ key: Int, of region: OracleRegion, _ atLeast: UInt64) {
    if sequence < atLeast {
      violation("\(region.name) \(key) read as \(sequence), \(atLeast) was acknowledged")
    }
    if sequence > board[region, key, .issued] {
      violation("\(region.name) \(key) read as \(sequence), which was never issued")
    }
  }

  private func judgeAbsence(_ key: Int, of region: OracleRegion, _ before: Expectation) {
    let permitted = region.permitted
    if permitted.contains(.absent) || permitted.contains(.evicted) && plan.mayVanish { return }
    if board[region, key, .removalIssued] >= before.acknowledged { return }
    // Every value that is or was in force may have expired by now.
    if permitted.contains(.expired),
      min(before.deadline, board[region, key, .deadline]) <= UInt64(now)
    {
      return
    }
    violation("\(region.name) \(key) is missing, \(before.acknowledged) was acknowledged")
  }

  /// Increments a counter and judges its new value.
  ///
  /// - Parameter increment: Increments the stored counter and returns its new value.
  func increment(
    _ key: Int, of region: OracleRegion, _ increment: () throws -> UInt64
  ) rethrows {
    let acknowledged = board[region, key, .acknowledged]
    board.add(region, key, .issued)
    let count = try increment()
    board.add(region, key, .acknowledged)
    judge(count, key, of: region, acknowledged + 1)
  }

  // MARK: Readers

  /// Reads random keys as fast as it can until the storm is over.
  ///
  /// - Parameters:
  ///   - period: Reads between two calls of `slowly`.
  ///   - slowly: Reads what is too slow for every turn.
  @inline(__always)
  func readFast<Value: OracleValue>(
    _ region: OracleRegion, period: UInt64, slowly: () throws -> Void,
    _ read: (Int) throws -> Value?
  ) {
    var newest = [UInt64](repeating: 0, count: region.keys.upperBound)
    var random = SplitMix64(state: UInt64.random(in: 0...UInt64.max))
    var reads: UInt64 = 0
    while true {
      reads &+= 1
      if reads % period == 0 {
        beat()
        board.add(.reads, period)
        if board.isOver { break }
        attempt(slowly)
      }
      let key = Int(random.next() % UInt64(region.keys.count))
      attempt {
        guard let value = try check(key, of: region, everyByte: false, { try read(key) })
        else { return }
        if value.sequence < newest[key] {
          violation("\(region.name) \(key) read as \(value.sequence) after \(newest[key])")
        }
        newest[key] = max(newest[key], value.sequence)
      }
    }
  }

  // MARK: Streams

  /// A stream of changes, and the newest sequence that it has delivered per key.
  final class ObservedStream: Sendable {
    let name: String
    let region: OracleRegion
    let keys: [Int]
    /// Iterates the stream once and reports each delivered value.
    let iterate: @Sendable (ObservedStream) async throws -> Void
    private let newest = Mutex<[Int: UInt64]>([:])

    init(
      _ name: String, _ region: OracleRegion, _ keys: [Int],
      _ iterate: @escaping @Sendable (ObservedStream) async throws -> Void
    ) {
      self.name = name
      self.region = region
      self.keys = keys
      self.iterate = iterate
    }

    /// Records a delivery and returns the sequence that was delivered before it.
    func record(_ sequence: UInt64, _ key: Int) -> UInt64 {
      newest.withLock { newest in
        defer { newest[key] = sequence }
        return newest[key] ?? 0
      }
    }

    func hasDelivered(_ wanted: [UInt64]) -> Bool {
      newest.withLock { newest in zip(keys, wanted).allSatisfy { newest[$0] ?? 0 >= $1 } }
    }
  }

  /// Judges a value that a stream has delivered: sequences never decrease.
  func take<Value: OracleValue>(_ value: Value, _ key: Int, _ stream: ObservedStream) {
    guard stream.region.keys.contains(key) else { return }
    if !value.isOwn(key) { violation("\(stream.name) delivered a torn value of \(key)") }
    judge(value.sequence, key, of: stream.region, stream.record(value.sequence, key))
  }

  /// Iterates streams until the storm is over; each delivers every acknowledged write in time.
  ///
  /// - Parameter turns: The permitted delay, in turns of 5 ms of this process, so that the time
  ///   for which the process is stopped does not count.
  func observe(_ streams: [ObservedStream], turns: Int) async {
    let tasks = streams.map { stream in
      Task.detached { [self] in
        while !board.isOver, !Task.isCancelled {
          do { try await stream.iterate(stream) } catch { Worker.judge(error, board) }
        }
      }
    }
    while !board.isOver {
      let wanted = streams.map { stream in
        stream.keys.map { board[stream.region, $0, .acknowledged] }
      }
      var turn = 0
      while !board.isOver {
        beat()
        board.add(.operations)
        let late = zip(streams, wanted).first { !$0.hasDelivered($1) }
        guard let late else { break }
        turn += 1
        if turn > turns {
          violation("\(late.0.name) has not delivered acknowledged writes after \(turn) turns")
          break
        }
        rest(milliseconds: 5)
      }
      rest(milliseconds: 1)
    }
    // A cancelled wait ends before the store is closed.
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
  }
}
#endif
