// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

extension QueryRun {
  /// The values of a property, read from the fields of records that are not decoded otherwise.
  ///
  /// - Returns: `nil`: the objects are needed, to be sorted or because it is not known where the
  ///   property is stored.
  func fieldValues<Value>(
    of property: PropertyPath<Object, Value>, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [Value]? {
    // Of a type with a budget it is noted which objects were used.
    guard query.start == nil, query.sorts.isEmpty || plan.isSorted, record.references == nil,
      record.isBounded != true,
      let scalar = Value.self as? any StoredScalar.Type
    else { return nil }
    return try fieldValues(opening: scalar, property, generation, transaction)
  }

  private func fieldValues<Scalar: StoredScalar, Value>(
    opening type: Scalar.Type, _ property: PropertyPath<Object, Value>, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [Value]? {
    guard let path = property as? PropertyPath<Object, Scalar>,
      let stored = StoredProperty(path, { _ in true }),
      let key = try kind.storedKey(
        stored, sample: { try kind.sample(record, generation, transaction) })
    else { return nil }
    func value(_ object: RawSpan) -> Scalar? {
      switch StoredField.find(key, in: object) {
      case .found(let range): Scalar.read(object.slice(range)!)
      case .missing: Scalar.absent
      case .unclear: nil
      }
    }
    let wanted = query.wanted
    if wanted == 0 { return [] }
    var found: [(sequence: UInt64, value: Scalar)] = []
    func add(_ sequence: UInt64, _ value: Scalar) -> Bool {
      found.append((sequence, value))
      return !plan.isSorted || found.count < wanted
    }
    do {
      try visit(
        generation, transaction,
        undecoded: { head, object in value(object).map { add(head.sequence, $0) } },
        check: { object, bytes in
          let known = path.value(of: object)
          // What is not equal to itself, as NaN, is no reason for doubt.
          return value(bytes).map { $0 == known || known != known } ?? true
        }
      ) { add($0.sequence, path.value(of: $0.object)) }
    } catch is QueryJudge<Object>.Mistrust {
      return nil
    } catch is CutKey {
      return nil
    }
    if !plan.isSorted { found.sort { $0.sequence < $1.sequence } }
    let values = found.dropFirst(query.skipped).prefix(max(wanted - query.skipped, 0))
      .map { $0.value }
    return values as? [Value]
  }
}

extension Kind {
  /// One of the oldest objects that is small and decodes, as it is stored.
  func sample(
    _ record: ObjectTypeRecord, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [UInt8]? {
    var sample: [UInt8]?
    var seen = 0
    try ObjectReading.scan(
      type: record.number, in: generation, transaction, damaged: { _ in true }
    ) { head, id, object in
      seen += 1
      // It will be decoded some hundred times.
      if object.byteCount <= 4096, head.codec == CodecIdentifier.cbor.rawValue {
        let bytes = object.copied()
        if (try? decode(bytes, id: id.copied(), newDecoder())) != nil { sample = bytes }
      }
      return sample == nil && seen < 16
    }
    return sample
  }
}
