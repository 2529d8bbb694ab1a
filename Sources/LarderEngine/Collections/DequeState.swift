// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE ENTRIES OF A DEQUE
//
// A deque is a namespace of pinned entries. An element is an entry whose key is its place, an integer:
// the elements before their first claim have the places from `first` to `end` without `end`, without
// gaps. One more entry, with the text `state` as its key, has the state. All numbers are little-endian.
//
//      0  version       u32   1
//      4  zero          u32
//      8  first         i64
//     16  end           i64
//     24  last claim    u64   the number of the newest claim: at least the time since 1970 in units of
//                             250 ns, so that no number is used again after the state was lost
//     32  claims        u32   their count
//     36  returned      u32   their count
//     40  claims        each 40 bytes: place i64, number u64, owner u64, deadline i64, attempt u32,
//                       zero u32. The owner is the id of a process in the file `locks`; the deadline is
//                       a time of that file (`LockFile+Time.swift`) in milliseconds.
//         returned      each 24 bytes, in the order of the places: place i64, due i64, attempts u32,
//                       zero u32. Elements whose claims ended without success; `due` is the time before
//                       which they are not claimed.
//
// An element is in the range, in a claim, or returned. While places before the range are in use, one that
// is pushed before all others is returned from the start. An entry that is missing, because it was damaged
// or removed by its key, is skipped. A missing state is made again from the places of the entries.

/// The order and the claims of a deque. The comment above has the stored form.
package struct DequeState: Sendable, Equatable {
  /// An element that a caller works on.
  package struct Claim: Sendable, Equatable {
    package let place: Int
    package let number: UInt64
    let owner: UInt64
    package var deadline: Int64
    package var attempt: Int

    fileprivate func isSame(as other: Claim) -> Bool {
      number == other.number && place == other.place && owner == other.owner
    }
  }

  /// An element outside of the range that can be claimed.
  struct Returned: Sendable, Equatable {
    let place: Int
    let due: Int64
    let attempts: Int
  }

  private(set) var first = 0
  private(set) var end = 0
  private var lastClaim: UInt64 = 0
  package private(set) var claims: [Claim] = []
  private(set) var returned: [Returned] = []

  init() {}

  /// The places that a deque can have. Other integers are keys of another program.
  private static let places = -(1 << 62)...(1 << 62)

  /// Creates the state of elements at these places that no caller has claimed. Only the last run without
  /// gaps is the range: a search for the next element passes over no gap.
  init(places: [Int]) {
    let sorted = places.filter(Self.places.contains).sorted()
    guard let last = sorted.last else { return }
    end = last + 1
    first = last
    var index = sorted.count - 1
    while index > 0, sorted[index - 1] == first - 1 {
      first -= 1
      index -= 1
    }
    returned = sorted[..<index].map { Returned(place: $0, due: .min, attempts: 0) }
  }

  /// The number of elements that are not claimed.
  package var waitingCount: Int { end - first + returned.count }

  /// Returns the number of those that can only be claimed later.
  package func delayedCount(at now: Int64) -> Int { returned.count { $0.due > now } }

  /// The time at which the first claim ends or the first returned element is due.
  package var nextTime: Int64 {
    min(claims.lazy.map(\.deadline).min() ?? .max, returned.lazy.map(\.due).min() ?? .max)
  }

  /// Whether there are times to compare.
  var hasTimes: Bool { !claims.isEmpty || !returned.isEmpty }

  /// Whether an element can be claimed at a time.
  package func isReady(at now: Int64) -> Bool {
    first < end || returned.contains { $0.due <= now } || claims.contains { $0.deadline <= now }
  }

  // MARK: Places

  /// Returns the place of a new element.
  mutating func append() -> Int {
    end += 1
    return end - 1
  }

  /// Returns the place of a new element before all others.
  mutating func prepend() -> Int {
    let lowest = min(claims.lazy.map(\.place).min() ?? .max, returned.first?.place ?? .max)
    if lowest >= first {
      first -= 1
      return first
    }
    // The places before the range are in use.
    returned.insert(Returned(place: lowest - 1, due: .min, attempts: 0), at: 0)
    return lowest - 1
  }

  /// Takes the first element that is due, and returns its place and the number of earlier attempts.
  mutating func takeFirst(now: Int64) -> (place: Int, attempts: Int)? {
    if let index = returned.firstIndex(where: { $0.due <= now }),
      first == end || returned[index].place < first
    {
      let element = returned.remove(at: index)
      return (element.place, element.attempts)
    }
    guard first < end else { return nil }
    first += 1
    return (first - 1, 0)
  }

  /// Takes the last element that is due.
  mutating func takeLast(now: Int64) -> Int? {
    if first < end {
      end -= 1
      return end
    }
    guard let index = returned.lastIndex(where: { $0.due <= now }) else { return nil }
    return returned.remove(at: index).place
  }

  // MARK: Claims

  /// Adds a claim of an element that was taken.
  mutating func claim(
    _ element: (place: Int, attempts: Int), owner: UInt64, deadline: Int64
  ) -> Claim {
    // Greater than the numbers before the deque was removed, too: a claim takes more than 250 ns.
    lastClaim = max(lastClaim &+ 1, Clocks.wallNanoseconds() / 250)
    let claim = Claim(
      place: element.place, number: lastClaim, owner: owner, deadline: deadline,
      attempt: element.attempts + 1)
    claims.append(claim)
    return claim
  }

  /// Removes and returns a claim, or returns `nil` if it has ended.
  mutating func endClaim(_ claim: Claim) -> Claim? {
    guard let index = claims.firstIndex(where: { $0.isSame(as: claim) }) else { return nil }
    return claims.remove(at: index)
  }

  /// Gives a claim another deadline. Returns whether there is one.
  mutating func extendClaim(_ claim: Claim, to deadline: Int64) -> Bool {
    guard let index = claims.firstIndex(where: { $0.isSame(as: claim) }) else { return false }
    claims[index].deadline = deadline
    return true
  }

  /// Removes and returns the claims that match.
  mutating func endClaims(where matches: (Claim) -> Bool) -> [Claim] {
    let ended = claims.filter(matches)
    if !ended.isEmpty { claims.removeAll(where: matches) }
    return ended
  }

  /// Makes the element of an ended claim available again.
  mutating func giveBack(_ claim: Claim, due: Int64) {
    let element = Returned(place: claim.place, due: due, attempts: claim.attempt)
    let index = returned.firstIndex { $0.place > element.place } ?? returned.endIndex
    returned.insert(element, at: index)
  }
}

// MARK: The stored form

extension DequeState {
  private static let version: UInt32 = 1
  private static let headerSize = 40
  private static let claimSize = 40
  private static let returnedSize = 24

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(
      Self.headerSize + claims.count * Self.claimSize + returned.count * Self.returnedSize)
    func append(_ number: Int) { bytes.append(littleEndian: UInt64(bitPattern: Int64(number))) }
    bytes.append(littleEndian: UInt64(Self.version))
    append(first)
    append(end)
    bytes.append(littleEndian: lastClaim)
    bytes.append(littleEndian: UInt32(claims.count))
    bytes.append(littleEndian: UInt32(returned.count))
    for claim in claims {
      append(claim.place)
      bytes.append(littleEndian: claim.number)
      bytes.append(littleEndian: claim.owner)
      bytes.append(littleEndian: UInt64(bitPattern: claim.deadline))
      bytes.append(littleEndian: UInt64(claim.attempt))
    }
    for element in returned {
      append(element.place)
      bytes.append(littleEndian: UInt64(bitPattern: element.due))
      bytes.append(littleEndian: UInt64(element.attempts))
    }
    return bytes
  }

  /// Creates a state from its stored form.
  ///
  /// - Returns: `nil` if the bytes are none.
  init?(bytes: [UInt8]) {
    let parsed: DequeState? = bytes.withRawSpan { bytes in
      guard let version: UInt32 = bytes.integer(at: 0), version == Self.version,
        let claimCount: UInt32 = bytes.integer(at: 32),
        let returnedCount: UInt32 = bytes.integer(at: 36),
        bytes.byteCount == Self.headerSize + Int(claimCount) * Self.claimSize
          + Int(returnedCount) * Self.returnedSize
      else { return nil }
      func number(_ offset: Int) -> Int { Int(bytes.integer(at: offset, as: Int64.self)!) }
      var state = DequeState()
      state.first = number(8)
      state.end = number(16)
      state.lastClaim = bytes.integer(at: 24)!
      let claimsEnd = Self.headerSize + Int(claimCount) * Self.claimSize
      state.claims = stride(from: Self.headerSize, to: claimsEnd, by: Self.claimSize).map { at in
        Claim(
          place: number(at), number: bytes.integer(at: at + 8)!, owner: bytes.integer(at: at + 16)!,
          deadline: bytes.integer(at: at + 24)!,
          attempt: Int(bytes.integer(at: at + 32, as: UInt32.self)!))
      }
      let places = stride(from: claimsEnd, to: bytes.byteCount, by: Self.returnedSize)
      state.returned = places.map { at in
        Returned(
          place: number(at), due: bytes.integer(at: at + 8)!,
          attempts: Int(bytes.integer(at: at + 16, as: UInt32.self)!))
      }
      let isValid =
        state.first <= state.end && Self.places.contains(state.first)
        && Self.places.contains(state.end)
      return isValid ? state : nil
    }
    guard let parsed else { return nil }
    self = parsed
  }
}
