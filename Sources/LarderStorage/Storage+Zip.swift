// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Two storages as one of pairs.
///
/// A read returns a pair if both sides have a value. If a side fails, ``ZippedResultError`` contains its
/// error. If only one side has a value, `retrieve(forKey:)` throws the same error and
/// `value(forKey:)` returns `nil`.
/// A write always writes both sides; a failure of one side does not undo the other.
public func zip<Left: StorageProtocol, Right: StorageProtocol>(
  _ left: Left, _ right: Right
) -> Storage<Left.Key, (Left.Value, Right.Value)> where Left.Key == Right.Key {
  let (left, right) = (left.asStorage(), right.asStorage())
  return Storage(
    storageName: left.storageName + "+" + right.storageName,
    operations: zipped(left.operations, right.operations))
}

/// Two storages as one that gives pairs.
public func zip<Left: ReadOnlyStorageProtocol, Right: ReadOnlyStorageProtocol>(
  _ left: Left, _ right: Right
) -> ReadOnlyStorage<Left.Key, (Left.Value, Right.Value)> where Left.Key == Right.Key {
  let (left, right) = (left.asReadOnlyStorage(), right.asReadOnlyStorage())
  return ReadOnlyStorage(
    storageName: left.storageName + "+" + right.storageName,
    operations: zipped(left.operations, right.operations))
}

/// Two storages as one that takes pairs.
public func zip<Left: WriteOnlyStorageProtocol, Right: WriteOnlyStorageProtocol>(
  _ left: Left, _ right: Right
) -> WriteOnlyStorage<Left.Key, (Left.Value, Right.Value)> where Left.Key == Right.Key {
  let (left, right) = (left.asWriteOnlyStorage(), right.asWriteOnlyStorage())
  return WriteOnlyStorage(
    storageName: left.storageName + "+" + right.storageName,
    operations: zipped(left.operations, right.operations))
}

private func zipped<Key, A, B>(
  _ left: StorageOperations<Key, A>, _ right: StorageOperations<Key, B>
) -> StorageOperations<Key, (A, B)> {
  var result = StorageOperations<Key, (A, B)>(
    read: both(left.read, right.read).map { values in
      guard let first = values.0, let second = values.1 else { return nil }
      return (first, second)
    },
    write: both(left.write, right.write) {
      (item: StorageWrite<Key, (A, B)>) in
      StorageWrite(key: item.key, value: item.value.0, expires: item.expires)
    } right: {
      StorageWrite(key: $0.key, value: $0.value.1, expires: $0.expires)
    }.map { _ in })
  if let first = left.remove, let second = right.remove {
    result.remove = both(first, second).map { _ in }
  }
  if let first = left.removeAll, let second = right.removeAll {
    result.removeAll = both(first, second).map { _ in }
  }
  if let first = left.keys, let second = right.keys, Key.self is any Hashable.Type {
    result.keys = both(first, second).map { keys in
      let others = Set(keys.1.compactMap { $0 as? AnyHashable })
      return keys.0.filter { ($0 as? AnyHashable).map(others.contains) ?? false }
    }
  }
  result.contains = both(left.containing, right.containing).map { $0.0 && $0.1 }
  if left.reportsExpiration, right.reportsExpiration {
    result.entry = both(left.entries, right.entries).map { entries in
      guard let first = entries.0, let second = entries.1 else { return nil }
      // A pair expires with the first of its sides.
      let expires = [first.expires, second.expires].compactMap { $0 }.min()
      return StorageEntry((first.value, second.value), expires: expires)
    }
  }
  result.supportsExpiration = left.supportsExpiration && right.supportsExpiration
  result.hasUnreportedExpiration = !left.reportsExpiration || !right.reportsExpiration
  result.lanes = left.lanes(and: right)
  result.missing = both(left.containing, right.containing).map { isThere in
    let miss = StorageError.noValue(in: "a side of zip")
    // If both sides are missing, the pair is missing, and no side has failed.
    guard isThere.0 != isThere.1 else { return miss }
    return ZippedResultError(
      left: isThere.0 ? nil : miss, right: isThere.1 ? nil : miss)
  }
  return result
}

/// Two calls with the same input.
private func both<Input, O1, O2>(
  _ first: StorageOperation<Input, O1>, _ second: StorageOperation<Input, O2>
) -> StorageOperation<Input, (O1, O2)> {
  both(first, second, left: { $0 }, right: { $0 })
}

/// Two calls that are always both made; asynchronous ones concurrently.
private func both<Input, I1, O1, I2, O2>(
  _ first: StorageOperation<I1, O1>, _ second: StorageOperation<I2, O2>,
  left: @escaping @Sendable (Input) -> I1, right: @escaping @Sendable (Input) -> I2
) -> StorageOperation<Input, (O1, O2)> {
  .composed(max(first.kind, second.kind)) { input in
    try pair(
      Result { try first.now!(left(input)) }, Result { try second.now!(right(input)) })
  } asynchronous: { input in
    async let one = result(first, left(input))
    async let other = result(second, right(input))
    return try pair(await one, await other)
  }
}

private func result<Input, Output>(
  _ call: StorageOperation<Input, Output>, _ input: Input
) async -> Result<Output, any Error> {
  do { return .success(try await call(input)) } catch { return .failure(error) }
}

private func pair<A, B>(
  _ left: Result<A, any Error>, _ right: Result<B, any Error>
) throws -> (A, B) {
  if case .success(let first) = left, case .success(let second) = right { return (first, second) }
  var (first, second): ((any Error)?, (any Error)?) = (nil, nil)
  if case .failure(let error) = left { first = error }
  if case .failure(let error) = right { second = error }
  throw ZippedResultError(left: first, right: second)
}
