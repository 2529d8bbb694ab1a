// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// A type-erased descriptor of a stored type that this process uses.
protocol AnyObjectTypeDescriptor: Sendable {
  var name: String { get }
  /// The schema version that the Swift type declares.
  var version: UInt32 { get }

  func prepare(_ transaction: inout StoreTransaction) throws -> ObjectTypeRecord

  /// Forgets that this process has read an object, because it deletes the object.
  func forgetRead(_ id: [UInt8])

  /// Forgets that this process has read objects, because it deletes all of them.
  func forgetReads()

  /// Returns the write for an object whose bytes were changed.
  func rewrite(
    _ id: [UInt8], _ bytes: [UInt8], _ record: inout ObjectTypeRecord,
    in transaction: inout StoreTransaction
  ) throws -> ObjectWrite
}

extension ObjectTypeDescriptor: AnyObjectTypeDescriptor {
  func forgetRead(_ id: [UInt8]) { id.withRawSpan { reads.forget(ReadState.hash($0)) } }

  func forgetReads() { reads.forgetAll() }

  func rewrite(
    _ id: [UInt8], _ bytes: [UInt8], _ record: inout ObjectTypeRecord,
    in transaction: inout StoreTransaction
  ) throws -> ObjectWrite {
    let object = try decode(bytes, id: id, newDecoder()).object
    var write = try write(object, &record, in: &transaction)
    // The bytes may contain fields that this program does not declare.
    write.bytes = bytes
    return write
  }

  /// Records the delete rules of the type from stored objects.
  func learnRelations(_ transaction: inout StoreTransaction) throws {
    guard !Object.relationships.isEmpty else { return }
    var record = try prepare(&transaction)
    guard record.references != nil else { return }
    var sample: Object?
    try transaction.withSnapshot { snapshot in
      try ObjectReading.scan(type: record.number, in: snapshot) { found in
        sample = (try? found.get()).flatMap { try? decode($0) }
        return sample == nil
      }
    }
    guard let sample else { return }
    _ = try write(sample, &record, in: &transaction)
  }
}
