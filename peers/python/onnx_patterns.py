"""What PyTorch's own models have as one call and ONNX files as several nodes, put together again."""
import onnx

MASKED = -1e4  # what replaces a masked score is at most this


class Uses:
    """Who makes and reads each value, and what the constants are."""

    def __init__(self, graph):
        self.constants = {t.name: t for t in graph.initializer}
        self.makers, self.readers = {}, {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            for name in node.output:
                self.makers[name] = node
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.results = {v.name for v in graph.output}

    def maker(self, name, *types):
        """The node of one of these types that makes `name` for a single reader."""
        node = self.makers.get(name)
        alone = len(self.readers.get(name, [])) == 1 and name not in self.results
        return node if node is not None and alone and node.op_type in types else None

    def scalar(self, name):
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        array = onnx.numpy_helper.to_array(tensor)
        return float(array.reshape(-1)[0]) if array.size == 1 else None


def linear_layers(graph, uses):
    """MatMul with a constant matrix, then Add of a constant row: a MatMul of three inputs, at the Add."""
    replaced, dropped = {}, set()
    for add in graph.node:
        if add.op_type != "Add":
            continue
        for product, bias in (add.input, reversed(add.input)):
            node = uses.maker(product, "MatMul")
            if node is None or node.input[1] not in uses.constants or bias not in uses.constants:
                continue
            dims = uses.constants[node.input[1]].dims
            if len(dims) == 2 and list(uses.constants[bias].dims) == [dims[1]]:
                replaced[id(add)] = onnx.helper.make_node("MatMul", [*node.input, bias], add.output)
                dropped.add(id(node))
                break
    return replaced, dropped


def attention(uses, softmax):
    """The inputs q, k transposed and mask of the scores of `softmax`, their scale, and the nodes between; or None."""
    between, mask, scale, scores = [softmax], "", 1.0, softmax.input[0]
    if node := uses.maker(scores, "Add"):
        # The mask is the smaller one: the scores are on the other side.
        first = uses.maker(node.input[0], "Div", "Mul", "MatMul")
        scores, mask = node.input if first is not None else reversed(node.input)
        between.append(node)
    elif node := uses.maker(scores, "Where"):
        if uses.constants.get(node.input[0]) is None or (uses.scalar(node.input[2]) or 0.0) > MASKED:
            return None
        mask, scores = node.input[0], node.input[1]
        between.append(node)
    if node := uses.maker(scores, "Div", "Mul"):
        factor = uses.scalar(node.input[1])
        if not factor:
            return None
        scale = 1 / factor if node.op_type == "Div" else factor
        scores = node.input[0]
        between.append(node)
    product = uses.maker(scores, "MatMul")
    if product is None or product.input[1] in uses.constants:
        return None
    return [*product.input], mask, scale, [*between, product]


def attentions(graph, uses):
    """softmax(q k' * scale + mask) v: a node ScaledDotProduct of q, k', v and the mask, at the last product."""
    replaced, dropped = {}, set()
    for last in graph.node:
        softmax = uses.maker(last.input[0], "Softmax") if last.op_type == "MatMul" else None
        found = attention(uses, softmax) if softmax is not None else None
        if found is None or any(a.name == "axis" and a.i not in (-1, 3) for a in softmax.attribute):
            continue
        (q, k), mask, scale, between = found
        replaced[id(last)] = onnx.helper.make_node("ScaledDotProduct", [q, k, last.input[1], mask], last.output,
                                                   scale=scale)
        dropped |= {id(node) for node in between}
    return replaced, dropped


def put_together(graph):
    """The nodes of the graph, in an order in which they can run."""
    uses = Uses(graph)
    replaced, dropped = {}, set()
    for find in (linear_layers, attentions):
        more, fewer = find(graph, uses)
        replaced |= more
        dropped |= fewer
    return [replaced.get(id(n), n) for n in graph.node if id(n) not in dropped]
