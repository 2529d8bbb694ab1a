// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The share of a store that a namespace has, the same for every process.
///
/// A value is a copy: it changes the namespace only with ``StoreNamespace/setLimits(_:)``.
public struct NamespaceLimits: Sendable, Hashable {
  /// The bytes that evictions for the budget of the store leave the namespace, or `nil` for none.
  public var minimum: ByteCount?
  /// The most bytes of the namespace, or `nil` for no limit but the store's.
  public var maximum: ByteCount?
  /// The most entries of the namespace, or `nil` for no limit but the store's.
  public var maximumEntries: Int?

  /// Creates limits; every parameter sets the property of the same name.
  public init(
    minimum: ByteCount? = nil, maximum: ByteCount? = nil, maximumEntries: Int? = nil
  ) {
    self.minimum = minimum
    self.maximum = maximum
    self.maximumEntries = maximumEntries
  }

  init(_ record: NamespaceRecord) {
    func bytes(_ number: UInt64) -> ByteCount? {
      number == 0 ? nil : ByteCount(bytes: Int(clamping: number))
    }
    self.init(
      minimum: bytes(record.minimum), maximum: bytes(record.maximum),
      maximumEntries: record.maximumEntries == 0 ? nil : Int(clamping: record.maximumEntries))
  }

  fileprivate var hasMaximum: Bool { maximum != nil || maximumEntries != nil }

  /// Throws ``StoreError/Code/invalidOption`` for limits that no namespace can have.
  fileprivate func validate(path: String) throws(StoreError) {
    for (name, size) in [("minimum", minimum), ("maximum", maximum)] {
      if let size, !(4096...GenerationBuilder.maximumBudget).contains(size.bytes) {
        throw invalid(
          "\(name) is \(size.bytes) bytes; the range is 4,096 bytes to 8 TiB", path)
      }
    }
    if let minimum, let maximum, minimum.bytes > maximum.bytes {
      throw invalid("minimum (\(minimum)) is above maximum (\(maximum))", path)
    }
    if let maximumEntries, !(1...1 << 40).contains(maximumEntries) {
      throw invalid("maximumEntries is \(maximumEntries); the range is 1 to 2^40", path)
    }
  }

  fileprivate func invalid(_ text: String, _ path: String) -> StoreError {
    StoreError(
      .invalidOption, during: "setLimits", path: path,
      "Invalid option: \(text). Pass a value in the range, or none.")
  }
}

extension StoreNamespace {
  /// Returns the limits of the namespace, as its last change of any process left them.
  ///
  /// - Throws: ``StoreError``.
  public func limits() throws -> NamespaceLimits {
    let core = try store.openCore("limits")
    return try core.withSnapshot("limits") { snapshot in
      guard let number = try core.number(of: space, snapshot),
        let bytes = try snapshot.transaction.value(
          forKey: NamespaceRecord.key(number), in: .main),
        let record = NamespaceRecord(bytes)
      else { return NamespaceLimits() }
      return NamespaceLimits(record)
    }
  }

  /// Changes the limits of the namespace for every process.
  ///
  /// ```swift
  /// let thumbnails = try store.namespace("thumbnails")
  /// try thumbnails.setLimits(.init(minimum: .megabytes(8), maximum: .megabytes(64)))
  /// ```
  ///
  /// Every process applies them from its next write on. No commit exceeds a maximum: a write in the
  /// namespace evicts from the namespace, least recently used entries of a sample first. Evictions for
  /// writes of other namespaces leave a namespace its minimum. Only if they find nothing else, they take
  /// from namespaces that have more than their minimum an entry with which they have less. If even
  /// that is not enough, the write is an error.
  ///
  /// A new maximum costs a pass over the entries of the store, and if the namespace exceeds it, this
  /// call evicts entries in steps of a thousand; other writers commit between the steps. If the process
  /// is killed before, either the maximum does not hold yet, or each later write in the namespace
  /// evicts up to a thousand entries until it fits. Limits that the namespace has already cost nothing.
  ///
  /// A minimum counts bytes: it does not keep a store above its entry budget. A cache that starts empty
  /// after damage has no limits of namespaces, so a program sets them when it opens the store.
  ///
  /// - Parameter limits: The new limits, all of which replace the namespace's.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a minimum above the maximum, for
  ///   minimums of all namespaces whose sum is above the budget of the store, and for values out of
  ///   range; ``StoreError/Code/pinLimitReached`` for a maximum below the pinned entries. Nothing has
  ///   changed then.
  /// - Complexity: O(*n*) in the entries of the store for a new maximum.
  public func setLimits(_ limits: NamespaceLimits) throws {
    let core = try store.openCore("setLimits")
    try limits.validate(path: core.directory.path)
    try core.set(limits, of: space)
  }
}

extension StoreCore {
  fileprivate func set(_ limits: NamespaceLimits, of space: NamespaceHandle) throws {
    // Again if another call has ended the index in the meantime, or begun another one.
    while let index = try begin(limits, of: space) {
      try addMembers(of: space, for: limits)
      if try finish(limits, of: space, with: index) { break }
    }
    while try !change(of: space, { try $0.trim(namespace: $1) }) {}
    while try change(of: space, { try $0.removeOldMembers(of: $1) }) {}
  }

  /// Stores limits without a maximum, or begins the index that a maximum needs.
  ///
  /// - Returns: The number of the index, or `nil` if the limits are stored.
  private func begin(_ limits: NamespaceLimits, of space: NamespaceHandle) throws -> UInt32? {
    let index = ResultBox<UInt32?>()
    _ = try change(of: space) { transaction, number in
      try transaction.requireMinimums(with: limits.minimum, of: number)
      let record = try transaction.namespaceRecord(number)
      // Without a maximum, the index of a call that was killed is not needed.
      if NamespaceLimits(record) == limits, limits.hasMaximum || record.index == 0 {
        index.set(.success(nil))
        return true
      }
      try transaction.changeNamespace(number) { record in
        if !limits.hasMaximum {
          record.set(limits)
          record.index = 0
        } else if record.index == 0 {
          record.beginIndex()
        }
      }
      let begun = try transaction.namespaceRecord(number).index
      index.set(.success(limits.hasMaximum ? begun : nil))
      return true
    }
    return try index.get()
  }

  /// Stores limits with a maximum.
  ///
  /// - Returns: Whether the namespace still has the index of this call.
  private func finish(
    _ limits: NamespaceLimits, of space: NamespaceHandle, with index: UInt32
  ) throws -> Bool {
    try change(of: space) { transaction, number in
      guard try transaction.namespaceRecord(number).index == index else { return false }
      try transaction.requireMinimums(with: limits.minimum, of: number)
      try transaction.changeNamespace(number) { $0.set(limits) }
      return true
    }
  }

  /// Runs a transaction about a namespace.
  private func change(
    of space: NamespaceHandle,
    _ body: @escaping @Sendable (inout StoreTransaction, UInt32) throws -> Bool
  ) throws -> Bool {
    try runExclusively { core in
      try core.withGeneration { generation in
        try core.transact(in: generation) { transaction in
          try body(&transaction, transaction.number(of: space))
        }.result
      }
    }
  }

  /// Adds the entries of a namespace to its index, in steps.
  ///
  /// - Throws: ``StoreError/Code/pinLimitReached`` if its pinned entries exceed a maximum.
  private func addMembers(of space: NamespaceHandle, for limits: NamespaceLimits) throws {
    var position: UInt64? = 0
    var pinned = StoreTotals.Sum()
    while let start = position {
      let box = ResultBox<(next: UInt64?, pinned: StoreTotals.Sum)>()
      _ = try change(of: space) { [pinned] transaction, number in
        var pinned = pinned
        let next = try transaction.addMembers(of: number, from: start, pinned: &pinned)
        box.set(.success((next, pinned)))
        return true
      }
      (position, pinned) = try box.get()
    }
    let isOver =
      limits.maximum.map { pinned.bytes > UInt64($0.bytes) } ?? false
      || limits.maximumEntries.map { pinned.entries > UInt64($0) } ?? false
    guard isOver else { return }
    _ = try change(of: space) { transaction, number in
      try transaction.changeNamespace(number) { if !$0.hasMaximum { $0.index = 0 } }
      return true
    }
    throw StoreError(
      .pinLimitReached, during: "setLimits", path: directory.path,
      "\(pinned.entries) pinned entries of the namespace have "
        + "\(ByteCount(bytes: Int(clamping: pinned.bytes))), more than the maximum. Raise the maximum, "
        + "or remove pinned entries.")
  }
}

extension NamespaceRecord {
  fileprivate mutating func set(_ limits: NamespaceLimits) {
    minimum = UInt64(limits.minimum?.bytes ?? 0)
    maximum = UInt64(limits.maximum?.bytes ?? 0)
    maximumEntries = UInt64(limits.maximumEntries ?? 0)
  }
}

extension StoreCore {
  /// Returns the number of records of all indexes of namespaces. For tests.
  package func memberRecords() throws -> Int {
    try withSnapshot("statistics") { snapshot in
      try snapshot.transaction.statistics(of: snapshot.generation.members).entries
    }
  }
}

extension StoreTransaction {
  /// Throws ``StoreError/Code/invalidOption`` if the minimums of all namespaces, with a new one for a
  /// namespace, are more than the budget of the store.
  fileprivate mutating func requireMinimums(
    with minimum: ByteCount?, of number: UInt32
  ) throws {
    guard let minimum, budget > 0 else { return }
    let sum = try sumOfMinimums(without: number) + UInt64(minimum.bytes)
    guard sum > budget else { return }
    throw StoreError(
      .invalidOption, during: "setLimits", path: generation.path,
      "The minimums of all namespaces would be \(ByteCount(bytes: Int(clamping: sum))), more than the "
        + "budget of \(ByteCount(bytes: Int(clamping: budget))). Raise the budget, or lower a minimum."
    )
  }

  /// Returns the sum of the minimums of all namespaces but one.
  func sumOfMinimums(without number: UInt32 = 0) throws -> UInt64 {
    var sum: UInt64 = 0
    let prefix = Array("i:".utf8)
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more, let other = NamespaceRecord.number(ofKey: cursor.currentKey) {
      if other != number, let record = NamespaceRecord(cursor.currentValue) {
        sum += record.minimum
      }
      more = try cursor.moveToNext()
    }
    return sum
  }
}
