// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem
internal import Synchronization

// WHERE A PROPERTY IS STORED
//
// A key path does not say under which name its property is stored, nor whether it is stored as it is:
// `CodingKeys` may rename it, and a type may code itself in a way of its own. It is found out by
// trying, once for a property in a process, on an object that is stored:
//
//   - the property is stored in the struct itself, not computed, and the type asks for its fields
//     plainly, each once (`SchemaProbe.swift`);
//   - for exactly one field it holds that, whatever the field is set to (two dozen values: edges, and
//     those that programs like to treat apart), the object then decoded has this very value in the
//     property, that the reader of fields makes the same of it, and that encoding gives the field back;
//   - whatever any other field is set to, the property stays as it was;
//   - without the field, or with null in it, the object decodes with `nil`, or not at all if the
//     property is not optional.
//
// Anything else is decoded. A type written by hand could still pass and treat some other value apart;
// so what a query passes over is decoded now and then as well, and what it finds always, and if ever
// the two judgements differ, the type is decoded from then on and the query begins again.

struct StoredProof<Object: Storable, Value: StoredScalar> {
  let kind: Kind<Object>
  let path: PropertyPath<Object, Value>

  /// The name of the property's field, from an object that is stored; `nil`: no proof.
  func name(from sample: [UInt8]) -> String? {
    guard MemoryLayout<Object>.offset(of: path.path) != nil,
      case .map(let pairs)? = try? CBORValue(parsing: sample), pairs.count < 256,
      let declared = SchemaProbe.fields(of: Object.self, from: sample)
    else { return nil }
    // As the probe writes them: "name: kind".
    let names = declared.map { field in
      field.lastIndex(of: ":").map { String(field[..<$0]) } ?? field
    }
    guard Set(names).count == names.count else { return nil }
    let fitting = names.filter { isStored(under: $0, pairs) }
    guard fitting.count == 1, isIndependent(of: names.filter { $0 != fitting[0] }, pairs) else {
      return nil
    }
    return fitting[0]
  }

  private func decoded(_ pairs: [CBORValue.Pair]) -> (object: Object, bytes: [UInt8])? {
    let bytes = CBORValue.map(pairs).encoded
    guard let object = try? kind.decode(bytes, id: [], kind.newDecoder()).object else { return nil }
    return (object, bytes)
  }

  private func setting(
    _ name: String, to value: CBORValue?, _ pairs: [CBORValue.Pair]
  ) -> [CBORValue.Pair] {
    pairs.filter { $0.key != .text(name) } + (value.map { [.init(.text(name), $0)] } ?? [])
  }

  private func isStored(under name: String, _ pairs: [CBORValue.Pair]) -> Bool {
    let key = CBORValue.text(name).encoded
    for sample in Value.samples {
      guard let bytes = try? CBOREncoder().encode(sample),
        let value = try? CBORValue(parsing: bytes),
        let (object, whole) = decoded(setting(name, to: value, pairs)),
        path.value(of: object) == sample, read(key, whole) == sample,
        let again = try? kind.encode(object, LinkCollector())
      else { return false }
      // A missing field may be how `nil` is written.
      guard read(key, again) == sample || (sample == Value.absent && isMissing(key, again)) else {
        return false
      }
    }
    for absent in [nil, CBORValue.null] {
      let found = decoded(setting(name, to: absent, pairs)).map { path.value(of: $0.object) }
      if found != Value.absent { return false }
    }
    return true
  }

  private func read(_ key: [UInt8], _ object: [UInt8]) -> Value? {
    object.withRawSpan { object in
      guard case .found(let field) = StoredField.find(key, in: object) else { return nil }
      return Value.read(object.slice(field)!)
    }
  }

  private func isMissing(_ key: [UInt8], _ object: [UInt8]) -> Bool {
    object.withRawSpan { object in
      if case .missing = StoredField.find(key, in: object) { true } else { false }
    }
  }

  private func isIndependent(of names: [String], _ pairs: [CBORValue.Pair]) -> Bool {
    guard let (object, _) = decoded(pairs) else { return false }
    let before = path.value(of: object)
    let others: [CBORValue?] = [
      nil, .null, .boolean(true), .boolean(false), .text(""), .text("Z"), .text("0"),
    ]
    let numbers =
      Int.samples.compactMap { try? CBOREncoder().encode($0) }
      + Double.samples.compactMap { try? CBOREncoder().encode($0) }
    let values = others + numbers.map { try? CBORValue(parsing: $0) }
    return names.allSatisfy { name in
      values.allSatisfy { value in
        guard let (object, _) = decoded(setting(name, to: value, pairs)) else { return true }
        return path.value(of: object) == before
      }
    }
  }
}

/// What is known of where properties are stored.
struct StoredNames: Sendable {
  var names: [AnyPath: String?] = [:]
  /// Whether the type was caught at making something else of a field than it holds.
  var isDistrusted = false
}

extension Kind {
  /// The name of a property's field, encoded as a key; `nil`: objects have to be decoded.
  func storedKey(_ property: StoredProperty<Object>, sample: () throws -> [UInt8]?) throws
    -> [UInt8]?
  {
    if hasReferences { return nil }
    let known = storedNames.withLock { $0 }
    if known.isDistrusted { return nil }
    if let name = known.names[property.path] { return name.map { CBORValue.text($0).encoded } }
    guard let sample = try sample() else { return nil }
    let name = property.prove(self, sample)
    storedNames.withLock { $0.names[property.path] = .some(name) }
    return name.map { CBORValue.text($0).encoded }
  }

  func distrustFields() { storedNames.withLock { $0.isDistrusted = true } }
}
