// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension StorageOperations {
  /// The operations with the calls of each key ordered as those of one storage.
  ///
  /// - Parameter turns: The turns of the storage, which all its forms share.
  package func ordered(by turns: StripedLock) -> StorageOperations { orderedIfNot(by: turns) }

  func orderedIfNot(by owner: some AnyObject & Sendable) -> StorageOperations {
    if lanes != nil { return self }
    var result = self
    // It retains the owner: as long as a call is pending, no other object has its identity.
    result.lanes = { key in [CallLane(ObjectIdentifier(owner), StripedLock.hash(key))] }
    return result
  }

  /// The operations of a storage without lanes: an object has its own, and a value those of its type.
  @usableFromInline
  func orderedIfNot<Design: StorageDesign>(as storage: Design) -> StorageOperations {
    if lanes != nil { return self }
    let owner =
      Design.self is AnyObject.Type
      ? ObjectIdentifier(storage as AnyObject) : ObjectIdentifier(Design.self)
    var result = self
    // It retains an object: as long as a call is pending, no other has its identity.
    result.lanes = { [storage] key in
      _ = storage
      return [CallLane(owner, StripedLock.hash(key))]
    }
    return result
  }

  /// The lanes of other keys. A key that cannot be mapped has none: its call fails.
  @usableFromInline
  func mapped<Other>(
    _ lanes: @escaping @Sendable (Key) -> [CallLane],
    _ transform: @escaping @Sendable (Other) throws -> Key
  ) -> @Sendable (Other) -> [CallLane] {
    { key in (try? transform(key)).map(lanes) ?? [] }
  }

  /// The lanes of these operations and of others, for storages that consist of several.
  func lanes<Other>(and other: StorageOperations<Key, Other>) -> (@Sendable (Key) -> [CallLane])? {
    guard let first = lanes, let second = other.lanes else { return lanes ?? other.lanes }
    return { key in first(key) + second(key) }
  }
}

extension StorageOperations {
  /// The error of a key that has no value.
  @usableFromInline
  func miss(of key: Key, in name: String) async -> any Error {
    await (try? missing?(key)) ?? StorageError.noValue(in: name)
  }

  /// The error of a key that has no value.
  @usableFromInline
  func missNow(of key: Key, in name: String) -> any Error {
    (try? missing?.wait(key)) ?? StorageError.noValue(in: name)
  }

  /// Reads a value that is expected to be there.
  func retrieving(in name: String) -> StorageOperation<Key, Value> {
    let (read, missing) = (read, missing)
    guard let missing else {
      return read.map { value in
        guard let value else { throw StorageError.noValue(in: name) }
        return value
      }
    }
    return .composed(max(read.kind, missing.kind)) { key in
      if let value = try read.now!(key) { return value }
      throw try missing.now!(key)
    } asynchronous: { key in
      if let value = try await read(key) { return value }
      throw try await missing(key)
    }
  }
}

extension StorageOperation {
  /// Makes a call and calls back, in order with the calls made before in the same lanes.
  ///
  /// An operation that never waits completes before this returns, unless an earlier call is pending.
  func call(
    _ input: Input, in lanes: [CallLane], isWrite: Bool = true,
    _ completion: @escaping @Sendable (Result<Output, any Error>) -> Void
  ) {
    let order = CallOrder.shared
    if kind == .quick, let now, order.isFree(lanes, isWrite: isWrite) {
      return completion(Result { try now(input) })
    }
    let ticket: CallOrder.Ticket
    do { ticket = try order.enter(lanes, isWrite: isWrite) } catch {
      return completion(.failure(error))
    }
    Task(executorPreference: BackgroundExecutor.shared) {
      let result: Result<Output, any Error>
      do {
        // A thread of the background may block.
        let output = try await order.run(ticket) {
          if let now { try now(input) } else { try await self(input) }
        }
        result = .success(output)
      } catch {
        result = .failure(error)
      }
      order.leave(ticket)
      completion(result)
    }
  }
}
